package browsertest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// A backend keeps the keys and sagas of a site.
type backend struct {
	keys      store.Store
	keyReader store.Reader
	sagas     journal.Journal
	reader    journal.Reader
	pool      *pgxpool.Pool // nil: memory
}

// inMemory is a backend that forgets everything with the test.
func inMemory() backend {
	keys, sagas := memstore.New(), memjournal.New()
	return backend{keys: keys, keyReader: keys.Reader(), sagas: sagas, reader: sagas.Reader()}
}

// inPostgres is a backend in a database of tb's own.
func inPostgres(tb testing.TB) backend {
	tb.Helper()
	cfg := pgtest.NewPool(tb, migrate).Config()
	cfg.MaxConns = 10
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	be, done, err := backendOn(pool)
	require.NoError(tb, err)
	tb.Cleanup(done)
	return be
}

// migrate makes the tables of a backend.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	for _, step := range []func(context.Context, *pgxpool.Pool, string) error{
		pgstore.Migrate, pgstore.AddReaderIndexes, pgjournal.Migrate, pgjournal.AddReaderIndexes,
	} {
		if err := step(ctx, pool, schema); err != nil {
			return err
		}
	}
	return nil
}

// backendOn is a backend in a migrated database. done frees what it holds.
func backendOn(pool *pgxpool.Pool) (be backend, done func(), err error) {
	keys, err := pgstore.New(pool, pgstore.Config{KeepRoutes: true})
	if err != nil {
		return be, nil, err
	}
	sagas, err := pgjournal.New(pool, pgjournal.Config{})
	if err != nil {
		return be, nil, err
	}
	// The machine may be busy with other tests. The readers wait longer than they do in production.
	be = backend{keys: keys, sagas: sagas, pool: pool}
	if be.keyReader, err = pgstore.NewReader(pool, pgstore.ReaderConfig{StatementTimeout: patience}); err != nil {
		return be, nil, err
	}
	if be.reader, err = pgjournal.NewReader(pool, pgjournal.ReaderConfig{StatementTimeout: patience}); err != nil {
		return be, nil, err
	}
	return be, func() {
		sagas.Close()
		keys.Close()
	}, nil
}
