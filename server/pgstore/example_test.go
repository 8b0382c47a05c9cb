package pgstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// openExample opens a store on a new server, with the tables of the examples.
func openExample(ctx context.Context) (*pgstore.Store, func(), error) {
	pool, stop, err := poolExample(ctx)
	if err != nil {
		return nil, stop, err
	}
	store, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{AllowNonDurable: true}) // pgtest runs without fsync
	return store, stop, err
}

// post sends the same request several times, like a caller that lost the answers.
func post(handler http.Handler, key string, times int) {
	for range times {
		req := httptest.NewRequest(http.MethodPost, "/entries", nil)
		req.Header.Set("Idempotency-Key", key)
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		fmt.Println(rec.Code, rec.Body, "replayed:", rec.Header().Get("Idempotent-Replayed"))
	}
}

// The handler's rows and its answer are committed together, once.
func ExampleTx() {
	ctx := context.Background()
	store, stop, err := openExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := guard.Handler(server.Transactional, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var entries int
		tx := pgstore.Tx(r.Context())
		if _, err := tx.Exec(r.Context(), "insert into entry values (4200)"); err != nil {
			http.Error(w, "entry", http.StatusInternalServerError)
			return
		}
		if err := tx.QueryRow(r.Context(), "select count(*) from entry").Scan(&entries); err != nil {
			http.Error(w, "entry", http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "entry %d", entries)
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	post(handler, "order-1042", 2)
	// Output:
	// 200 entry 1 replayed: false
	// 200 entry 1 replayed: true
}

// The rows of OnComplete are committed with the answer of a Keyed handler,
// after the handler's calls to other services.
func ExampleOnComplete() {
	ctx := context.Background()
	store, stop, err := openExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := guard.Handler(server.Keyed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := pgstore.OnComplete(r.Context(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into entry values (4200)")
			return err
		})
		if err != nil {
			http.Error(w, "entry", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "charged")
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	post(handler, "order-1042", 2)
	// Output:
	// 200 charged replayed: false
	// 200 charged replayed: true
}

func ExampleOpen() {
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig("postgres://ledger@127.0.0.1:1/ledger?connect_timeout=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = pgstore.Open(ctx, cfg, pgstore.Config{Schema: "pg_keys"})
	fmt.Println(err)
	// Output: pgstore: bad config: Schema "pg_keys" must have 1 to 63 of a-z, 0-9 and _, and must not begin with a digit or pg_
}
