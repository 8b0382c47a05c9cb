package readme_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/readme"
	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/examples/readme/paymentapi"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

var block = regexp.MustCompile("(?s)```go\n(.*?)```")

// Every Go block of the README is a piece of a file that is compiled and run
// here, and short enough to be read.
func TestREADMEShowsThisCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var sources string
	for _, name := range []string{"callee.go", "caller.go", "setup.go", "saga.go", "serve.go", "inventoryapi/inventoryapi.go"} {
		file, err := os.ReadFile(name)
		require.NoError(t, err)
		sources += string(file) + "\n"
	}
	blocks := block.FindAllSubmatch(text, -1)
	require.Len(t, blocks, 7, "contract, callee, caller, saga, set-up, main, stop")
	for _, b := range blocks {
		code := string(b[1])
		require.Contains(t, sources, code)
		require.LessOrEqual(t, strings.Count(code, "\n"), 30, code)
	}
	first := block.FindIndex(text)[0]
	require.LessOrEqual(t, len(strings.Fields(string(text[:first]))), 120, "words before the first code")
	require.Contains(t, string(text), "go run ./examples/checkout")
	require.Contains(t, string(text), "./test.sh")
}

// The caller and the callee, as the README shows them, work together.
func TestPlaceOrderTwice(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := pool.Exec(ctx, "create table holds (id bigserial primary key, sku text not null, count int not null)")
		return err
	})
	inventoryURL, stop := serveInventory(t, pool.Config().ConnString())
	payment := httptest.NewServer(newPayment(t))
	t.Cleanup(payment.Close)
	client, err := readme.NewClient(inventoryURL, payment.URL, "secret-1")
	require.NoError(t, err)
	own, err := readme.OpenStore(t.Context(), pool.Config().ConnString(), pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(own.Close)

	line := inventoryapi.Line{SKU: "sku-1", Count: 2}
	first, err := readme.PlaceOrder(t.Context(), client, own.Intents(), "order-1042", line, 4200)
	require.NoError(t, err)
	second, err := readme.PlaceOrder(t.Context(), client, own.Intents(), "order-1042", line, 4200)
	require.NoError(t, err)
	require.Equal(t, first, second)

	stranger, err := readme.NewClient(inventoryURL, payment.URL, "secret-2")
	require.NoError(t, err)
	_, err = sdk.Call(childkey.NewContext(t.Context(), childkey.MustParse("order-7")), stranger, inventoryapi.Reserve, line)
	require.ErrorIs(t, err, retry.ErrRejected, "nobody is known by that token")

	require.NoError(t, stop())
	var holds int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from holds").Scan(&holds))
	require.Equal(t, 1, holds)
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
