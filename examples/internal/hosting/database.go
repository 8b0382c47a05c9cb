package hosting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A Database is a service's Postgres: a pool, and the keys in it.
type Database struct {
	Pool  *pgxpool.Pool
	Store *pgstore.Store
}

// OpenDatabase migrates the store's tables and the service's own, and opens the
// store. Its error wraps [ErrNotYet] while the database cannot be reached.
func OpenDatabase(ctx context.Context, cfg *pgxpool.Config, tables ...pgkit.Migrations) (*Database, error) {
	cfg = cfg.Copy()
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	db := &Database{Pool: pool}
	if err := db.prepare(ctx, tables); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

func (db *Database) prepare(ctx context.Context, tables []pgkit.Migrations) error {
	if err := db.Pool.Ping(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotYet, err)
	}
	for _, t := range append([]pgkit.Migrations{pgstore.Migrations}, tables...) {
		if err := t.Up(ctx, db.Pool, ""); err != nil {
			return notYet(err)
		}
	}
	store, err := pgstore.New(db.Pool, pgstore.Config{AllowNonDurable: true, Logger: slog.Default()})
	if err != nil {
		return err
	}
	db.Store = store
	if err := db.checkServer(ctx); err != nil {
		return notYet(err)
	}
	return notYet(store.Check(ctx))
}

// checkServer warns of a server that can forget what it committed: it is good
// enough to try an example on, and for nothing else.
func (db *Database) checkServer(ctx context.Context) error {
	err := pgkit.CheckServer(ctx, db.Pool, false)
	if errors.Is(err, pgkit.ErrNotDurable) {
		slog.Warn("keys can be lost, and what they guard be repeated", "error", err)
		return nil
	}
	return err
}

// notYet marks the errors of a server that went away again while the service
// started.
func notYet(err error) error {
	if schema := new(pgkit.SchemaError); errors.As(err, &schema) || errors.Is(err, pgkit.ErrNotDurable) || errors.Is(err, pgkit.ErrMigrations) {
		return err // waiting does not change it
	}
	switch pgkit.Classify(err) {
	case pgkit.FailureLost, pgkit.FailureNotSent, pgkit.FailureReadOnly, pgkit.FailureTooManyConnections:
		return fmt.Errorf("%w: %w", ErrNotYet, err)
	default:
		return err
	}
}

// Healthz answers 200 while the database can be reached, else 503.
func (db *Database) Healthz() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := db.Pool.Ping(r.Context()); err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "no database", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n")) // a lost answer is asked for again
	})
}

// Close waits for the store's writes and closes the pool.
func (db *Database) Close() {
	if db.Store != nil {
		db.Store.Close()
	}
	db.Pool.Close()
}
