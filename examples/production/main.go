// Production is a guarded service with everything that it needs to run: authentication, limits, logs, metrics, a page for
// operators, readiness, and a stop that loses nothing. A deploy has made the tables and the roles before.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/pgstore"
)

type (
	order  struct{ SKU string }
	placed struct{ ID int64 }
)

var placeOrder = contract.Post[order, placed]("orders", "place", "/orders")

func insertOrder(ctx context.Context, in order) (out placed, err error) {
	if in.SKU == "" {
		return out, server.Refuse(http.StatusUnprocessableEntity, "no-sku", "Say what to order.")
	}
	err = pgstore.Tx(ctx).QueryRow(ctx, "insert into orders (sku) values ($1) returning id", in.SKU).Scan(&out.ID)
	return out, err
}

// callers has the tenant of each token. A service asks what knows its callers instead.
type callers map[string]string

// scope says whose key a request has: the tenant, never the token, which is another one tomorrow.
func (c callers) scope(r *http.Request) (string, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return c[token], nil // "" is refused with 401
}

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends. The variables LISTEN and OPS_LISTEN are the addresses for callers and for operators.
func run(ctx context.Context) error {
	var tenants callers
	if err := json.Unmarshal([]byte(os.Getenv("TENANTS")), &tenants); err != nil {
		return fmt.Errorf("TENANTS: %w", err)
	}
	store, err := pgstore.OpenURL(ctx, os.Getenv("DATABASE_URL"), pgstore.Config{Logger: slog.Default(), KeepRoutes: true})
	if err != nil {
		return err
	}
	defer store.Close()
	metrics := server.NewMetrics() // guardprom or guardotel in their place, where you have Prometheus or OpenTelemetry
	guard, err := server.NewGuard(store, tenants.scope, server.Config{
		Namespace:      "orders",
		HandlerTimeout: 8 * time.Second,
		SettleTimeout:  5 * time.Second,
		Observer:       metrics,
		Logger:         slog.Default(),
	})
	if err != nil {
		return err
	}
	ops, err := operations(store, guard, metrics)
	if err != nil {
		return err
	}
	go func() {
		if err := ops.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the operations page ended", "err", err)
		}
	}()
	defer ops.Close()

	mux := http.NewServeMux()
	server.MustHandle(mux, guard, placeOrder, server.Transactional, insertOrder)
	mux.Handle("GET /readyz", guard.ReadyHandler())
	web := &http.Server{Addr: os.Getenv("LISTEN"), Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	return guard.Serve(ctx, web, server.Stop{Drain: 5 * time.Second, Timeout: 20 * time.Second})
}

// operations is what operators and Prometheus see. The internet does not reach its address.
func operations(store *pgstore.Store, guard *server.Guard, metrics *server.Metrics) (*http.Server, error) {
	page, err := console.New(console.Config{
		Prefix:       "/ops",
		Stores:       []console.Store{{Name: "orders", Reader: store.Reader(), Guard: guard}},
		Authenticate: signIn,
		Challenge:    `Basic realm="ops"`,
		Logger:       slog.Default(),
	})
	if err != nil {
		return nil, err
	}
	expvar.Publish("fanonce", metrics)
	mux := http.NewServeMux()
	mux.Handle("/ops/", page)
	mux.Handle("GET /debug/vars", expvar.Handler())
	return &http.Server{Addr: os.Getenv("OPS_LISTEN"), Handler: mux, ReadHeaderTimeout: 5 * time.Second}, nil
}

// signIn lets in who has the password, under the name that they give. Your single sign-on knows the name.
func signIn(r *http.Request) (console.User, error) {
	name, password, _ := r.BasicAuth()
	want := os.Getenv("OPS_PASSWORD")
	if want == "" || subtle.ConstantTimeCompare([]byte(password), []byte(want)) == 0 {
		return console.User{}, errors.New("wrong password")
	}
	return console.User{Name: name, Role: console.Operator}, nil
}
