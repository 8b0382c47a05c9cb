package readme_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/readme"
	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/examples/readme/paymentapi"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

var block = regexp.MustCompile("(?s)```(?:go|sql)\n(.*?)```")

// Every block of code in the README is a whole file that is compiled and run here, with
// its package and imports, and short enough to be read.
func TestREADMEShowsThisCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var files []string
	for _, pattern := range []string{"*.go", "*/*.go", "*.sql"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if name == "doc.go" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := os.ReadFile(name)
			require.NoError(t, err)
			files = append(files, string(file))
		}
	}
	var shown []string
	for _, b := range block.FindAllSubmatch(text, -1) {
		shown = append(shown, string(b[1]))
		require.LessOrEqual(t, strings.Count(string(b[1]), "\n"), 45, string(b[1]))
	}
	require.ElementsMatch(t, files, shown, "each file is a block, and each block a file")
	require.LessOrEqual(t, strings.Count(shown[0], "\n"), 30)
	first := block.FindIndex(text)[0]
	require.LessOrEqual(t, len(strings.Fields(string(text[:first]))), 120, "words before the first code")
	require.Contains(t, string(text), "go get github.com/fanonce/fanonce")
	require.Contains(t, string(text), "go run ./examples/checkout")
	require.Contains(t, string(text), "./test.sh")
}

// withHolds makes the callee's table, as the README shows it.
func withHolds(ctx context.Context, pool *pgxpool.Pool) error {
	table, err := os.ReadFile("holds.sql")
	if err == nil {
		_, err = pool.Exec(ctx, string(table))
	}
	return err
}

// The caller and the callee, as the README shows them, work together: an order that is
// placed twice is one, and its hold is released once, whoever knows its id.
func TestPlaceOrderJob(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, withHolds)
	holds := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from holds").Scan(&n))
		return n
	}
	inventoryURL, stop := serveInventory(t, pool.Config().ConnString())
	payment := httptest.NewServer(newPayment(t))
	t.Cleanup(payment.Close)
	client, err := readme.NewClient(inventoryURL, payment.URL, "secret-1")
	require.NoError(t, err)
	own, err := readme.OpenStore(t.Context(), pool.Config().ConnString(), pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(own.Close)

	line := inventoryapi.Line{SKU: "sku-1", Count: 2}
	first, err := readme.PlaceOrderJob(t.Context(), client, own.Intents(), "order-1042", line, 4200)
	require.NoError(t, err)
	second, err := readme.PlaceOrderJob(t.Context(), client, own.Intents(), "order-1042", line, 4200)
	require.NoError(t, err)
	require.Equal(t, first, second)

	stranger, err := readme.NewClient(inventoryURL, payment.URL, "secret-2")
	require.NoError(t, err)
	_, err = sdk.Call(childkey.NewContext(t.Context(), childkey.MustParse("order-7")), stranger, inventoryapi.Reserve, line)
	require.ErrorIs(t, err, retry.ErrRejected, "nobody is known by that token")

	require.Equal(t, 1, holds())
	ctx, err := sdk.Begin(t.Context(), own.Intents(), "shop", "order-1042")
	require.NoError(t, err)
	for range 2 {
		_, err = sdk.CallUndo(ctx, client, inventoryapi.Release, inventoryapi.Reserve, contract.Undo[inventoryapi.Line, inventoryapi.Hold]{Input: line})
		require.NoError(t, err)
	}
	require.Equal(t, 0, holds())
	require.NoError(t, stop())
}

// In a guarded handler the order has its key already: PlaceOrder takes the handler's ctx,
// and Begin refuses it.
func TestPlaceOrder_inAGuardedHandler(t *testing.T) {
	t.Parallel()
	inventory, payment := sdktest.New(t, nil), sdktest.New(t, nil)
	client, err := readme.NewClient(inventory.URL(), payment.URL(), "secret-1")
	require.NoError(t, err)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Namespace: "shop"})
	require.NoError(t, err)
	place := contract.Post[inventoryapi.Line, string]("shop", "place", "/orders")
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, place, server.Keyed, func(ctx context.Context, line inventoryapi.Line) (string, error) {
		if _, err := readme.PlaceOrderJob(ctx, client, nil, "order-1", line, 4200); !errors.Is(err, sdk.ErrHasParent) {
			return "", fmt.Errorf("PlaceOrderJob in a guarded handler: %w", err)
		}
		return readme.PlaceOrder(ctx, client, line, 4200)
	}))
	shop := httptest.NewServer(mux)
	t.Cleanup(shop.Close)
	users, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"shop": {URL: shop.URL}}})
	require.NoError(t, err)
	t.Cleanup(users.Close)
	for range 2 {
		ctx := childkey.NewContext(t.Context(), childkey.MustParse("order-1"))
		_, err = sdk.Call(ctx, users, place, inventoryapi.Line{SKU: "sku-1", Count: 2})
		require.NoError(t, err)
	}
	for _, d := range []*sdktest.Downstream{inventory, payment} {
		require.Len(t, d.Requests(), 1)
	}
}

// serveInventory runs the README's main until stop is called, which returns its error.
func serveInventory(t *testing.T, databaseURL string) (url string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- readme.Serve(ctx, listener, databaseURL, pgstore.Config{AllowNonDurable: true}, map[string]string{"Bearer secret-1": "shop"})
	}()
	stop = sync.OnceValue(func() error { end(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return "http://" + listener.Addr().String(), stop
}

func newPayment(t *testing.T) http.Handler {
	t.Helper()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Namespace: "payment"})
	require.NoError(t, err)
	mux := http.NewServeMux()
	charges := 0
	require.NoError(t, server.Handle(mux, guard, paymentapi.Charge, server.Transactional,
		func(ctx context.Context, _ paymentapi.Payment) (paymentapi.Receipt, error) {
			memstore.Tx(ctx).Do(func() { charges++ })
			return paymentapi.Receipt{ID: "r-1"}, nil
		}))
	t.Cleanup(func() { require.Equal(t, 1, charges) })
	return mux
}
