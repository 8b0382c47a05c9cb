package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// An Entry is the input of Book, and a Receipt is its output.
type (
	Entry   struct{ Cents int }
	Receipt struct{ ID int }
)

// Book is in a package that the service and its callers import.
var Book = contract.Post[Entry, Receipt]("ledger", "book", "/entries")

// book is the handler. Its row and its answer are committed together.
func book(ctx context.Context, in Entry) (out Receipt, err error) {
	insert := "insert into entry (cents) values ($1) returning id"
	err = pgstore.Tx(ctx).QueryRow(ctx, insert, in.Cents).Scan(&out.ID)
	return out, err
}

// tenant is the scope: the caller, as the proxy in front of the service has authenticated it.
func tenant(r *http.Request) (string, error) {
	if t := r.Header.Get("X-Tenant"); t != "" {
		return t, nil
	}
	return "", errors.New("no tenant")
}

// serve is the service: tables, store, guard, route, sweeper. It sends the same request twice to itself.
func serve(ctx context.Context, url string) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	// A deploy migrates, as the owner of the tables. The service itself may do without that right.
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool, ""); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "create table entry (id int generated always as identity, cents int not null)"); err != nil {
		return err
	}

	store, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true}) // the example's server runs without fsync
	if err != nil {
		return err
	}
	defer store.Close()
	guard, err := server.NewGuard(store, tenant, server.Config{Retention: 24 * time.Hour})
	if err != nil {
		return err
	}
	defer guard.Shutdown(ctx)
	go guard.RunSweeper(ctx) // deletes records past their retention

	mux := http.NewServeMux()
	if err := server.Handle(mux, guard, Book, server.Transactional, book); err != nil {
		return err
	}
	for range 2 {
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/entries", strings.NewReader(`{"Cents":4200}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", `"order-42"`)
		req.Header.Set("X-Tenant", "acme")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, req)
		fmt.Println(answer.Code, answer.Body, "replayed:", answer.Header().Get("Idempotent-Replayed"))
	}
	return nil
}

// A whole service. The second request gets the first one's answer from its record.
func Example() {
	ctx := context.Background()
	postgres, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer postgres.Stop()
	if err := serve(ctx, postgres.URL("postgres")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 200 {"ID":1} replayed: false
	// 200 {"ID":1} replayed: true
}
