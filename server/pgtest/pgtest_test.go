package pgtest_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

var migrations atomic.Int64

func migrate(ctx context.Context, pool *pgxpool.Pool, _ string) error {
	migrations.Add(1)
	_, err := pool.Exec(ctx, "create table orders (id bigint primary key)")
	return err
}

func TestNewPool_givesEachTestItsOwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	before := migrations.Load()
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			pool := pgtest.NewPool(t, migrate)
			// All tests insert the same id: one shared table would refuse the second insert.
			_, err := pool.Exec(t.Context(), "insert into orders values (1)")
			require.NoError(t, err)
		})
	}
	t.Cleanup(func() {
		// On a user's server no template could be dropped later.
		private := os.Getenv(pgtest.EnvDatabaseURL) == ""
		if got := migrations.Load() - before; private && got > 1 {
			t.Errorf("migrate ran %d times, want once", got)
		}
	})
}

func TestNewPool_tellsClosuresOfTheSameCodeApart(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"red", "blue"} {
		pool := pgtest.NewPool(t, func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
			_, err := pool.Exec(ctx, "create table "+table+" ()")
			return err
		})
		_, err := pool.Exec(t.Context(), "select from "+table)
		require.NoError(t, err)
	}
}

func TestNewPool_withoutMigrationsIsEmpty(t *testing.T) {
	t.Parallel()
	var tables int
	err := pgtest.NewPool(t, nil).QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'public'").Scan(&tables)
	require.NoError(t, err)
	require.Zero(t, tables)
}

func TestURL_databaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("uses it", func(t *testing.T) {
		url = pgtest.URL(t)
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
	})
	_, err := pgx.Connect(t.Context(), url)
	require.ErrorContains(t, err, "does not exist")
}

func TestURL_manyAtOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for range 16 {
		wg.Go(func() {
			url := pgtest.URL(t)
			mu.Lock()
			defer mu.Unlock()
			seen[url] = true
		})
	}
	wg.Wait()
	require.Len(t, seen, 16)
}
