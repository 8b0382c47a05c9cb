package hosting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgstore"
)

// A Database is a service's Postgres: a pool, and the keys in it.
type Database struct {
	Pool  *pgxpool.Pool
	Store *pgstore.Store
}

// Migrate brings a component's tables to a schema; empty means the first one of the
// search_path. pgstore.Migrate and pgjournal.Migrate are such functions.
type Migrate func(ctx context.Context, pool *pgxpool.Pool, schema string) error

// OpenDatabase migrates the store's tables and the service's own, and opens the
// store. Its error wraps [ErrNotYet] while the database cannot be reached.
func OpenDatabase(ctx context.Context, cfg *pgxpool.Config, tables ...Migrate) (*Database, error) {
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

func (d *Database) prepare(ctx context.Context, tables []Migrate) error {
	if err := d.Pool.Ping(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotYet, err)
	}
	for _, migrate := range append([]Migrate{pgstore.Migrate}, tables...) {
		if err := migrate(ctx, d.Pool, ""); err != nil {
			return notYet(err)
		}
	}
	return notYet(d.openStore(ctx))
}

// openStore opens the store, and warns of a server that can forget what it committed: it is
// good enough only to try an example.
func (d *Database) openStore(ctx context.Context) error {
	err := d.openStoreWith(ctx, pgstore.Config{Logger: slog.Default()})
	if errors.Is(err, pgstore.ErrNotDurable) {
		slog.Warn("keys can be lost, and what they guard be repeated", "error", err)
		err = d.openStoreWith(ctx, pgstore.Config{Logger: slog.Default(), AllowNonDurable: true})
	}
	return err
}

func (d *Database) openStoreWith(ctx context.Context, cfg pgstore.Config) error {
	store, err := pgstore.New(d.Pool, cfg)
	if err != nil {
		return err
	}
	if err := store.Check(ctx); err != nil {
		store.Close() // the pool stays open: it is not the store's
		return err
	}
	d.Store = store
	return nil
}

// permanent are the errors that stay until somebody changes the database, its settings or this program.
var permanent = []error{
	pgstore.ErrSchemaMissing, pgstore.ErrSchemaOlder, pgstore.ErrSchemaNewer,
	pgstore.ErrPrivilege, pgstore.ErrNotDurable, pgstore.ErrNotPrepared, pgstore.ErrConfig,
}

// notYet marks the errors of a server that went away again while the service
// started: all but the permanent ones, and statements that the server refused.
func notYet(err error) error {
	isErr := func(target error) bool { return errors.Is(err, target) }
	if err == nil || slices.ContainsFunc(permanent, isErr) || isRefused(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotYet, err)
}

// Healthz answers 200 while the database can be reached, else 503.
func (d *Database) Healthz() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.Pool.Ping(r.Context()); err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "no database", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n")) // a lost answer is asked for again
	})
}

// Close waits for the store's writes and closes the pool.
func (d *Database) Close() {
	if d.Store != nil {
		d.Store.Close()
	}
	d.Pool.Close()
}
