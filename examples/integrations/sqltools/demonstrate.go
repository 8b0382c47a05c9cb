package sqltools

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A Handler serves [Book].
type Handler func(ctx context.Context, in Booking) (Receipt, error)

// Demonstrate starts a Postgres and a service, and sends the same booking twice. It prints the answers and the number of
// rows.
func Demonstrate(ctx context.Context, book Handler) error {
	postgres, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		return err
	}
	defer func() { _ = postgres.Stop() }()
	pool, err := pgxpool.New(ctx, postgres.URL("postgres"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := createTables(ctx, pool); err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{AllowNonDurable: true}) // this Postgres runs without fsync
	if err != nil {
		return err
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		return err
	}
	defer guard.Shutdown(ctx)
	mux := http.NewServeMux()
	if err := server.Handle(mux, guard, Book, server.Transactional, book); err != nil {
		return err
	}
	for range 2 {
		sendOne(ctx, mux)
	}
	var rows int
	err = pool.QueryRow(ctx, "select count(*) from entry").Scan(&rows)
	fmt.Println("rows:", rows)
	return err
}

func createTables(ctx context.Context, pool *pgxpool.Pool) error {
	if err := pgstore.Migrate(ctx, pool, ""); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, Schema+"insert into account (name, cents) values ('ann', 100)")
	return err
}

func sendOne(ctx context.Context, service http.Handler) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/bookings", strings.NewReader(`{"Account":"ann","Cents":-30}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "order-42")
	w := httptest.NewRecorder()
	service.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body, "replayed:", w.Header().Get("Idempotent-Replayed"))
}
