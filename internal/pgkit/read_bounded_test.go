package pgkit_test

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgtest"
)

// The server ends a read that is too long, and the connection stays usable. No setting outlives its
// transaction, behind a pooler either.
func TestReadBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		url  func(tb testing.TB) string
	}{
		{"direct", func(tb testing.TB) string { return pgtest.URL(tb) }},
		{"through a pooler", func(tb testing.TB) string { return pgtest.PooledURL(tb, pgtest.URL(tb)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pool := newPoolAt(t, tt.url(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
			exec(t, pool, "create table bounded (id int)")
			settings := read(t, "select current_setting('statement_timeout') || ' ' || current_setting('jit') || ' ' || current_setting('transaction_read_only')")
			seen, err := readBounded[string](t.Context(), pool, 1500*time.Millisecond, settings)
			require.NoError(t, err)
			require.Equal(t, []string{"1500ms off on"}, seen)

			_, err = readBounded[string](t.Context(), pool, 20*time.Millisecond, read(t, "select pg_sleep(60)::text"))
			require.ErrorIs(t, err, pgkit.ErrTooSlow)
			require.ErrorContains(t, err, "20ms")
			_, err = readBounded[string](t.Context(), pool, time.Minute, read(t, "insert into bounded values (1) returning id::text"))
			require.Equal(t, pgkit.FailureReadOnly, pgkit.Classify(err), "%v", err)
			require.NotErrorIs(t, err, pgkit.ErrTooSlow)

			after := queryRow[string](t, pool, settings.SQL)
			require.NotContains(t, after, "1500ms")
			require.NotContains(t, after, "20ms")
			require.Contains(t, after, " off", "transaction_read_only")
			require.EqualValues(t, 1, pool.Stat().NewConnsCount(), "a read that took too long cost the connection")
		})
	}
}

// A table that another transaction has locked is waited for no longer than the limit, also by a
// statement that the server parses for the first time.
func TestReadBounded_lockedTable(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, other := newPoolAt(t, url), newPoolAt(t, url)
	exec(t, pool, "create table locked (id int)")
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "lock table locked in access exclusive mode")
	require.NoError(t, err)
	_, err = readBounded[int](t.Context(), pool, 20*time.Millisecond, read(t, "select id from locked"))
	require.ErrorIs(t, err, pgkit.ErrTooSlow)
	require.NoError(t, tx.Rollback(t.Context()))
	found, err := readBounded[int](t.Context(), pool, time.Minute, read(t, "select id from locked"))
	require.NoError(t, err)
	require.Empty(t, found)
}

// A caller who leaves gets the error of ctx, and not that of the limit.
func TestReadBounded_callerLeaves(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := readBounded[string](ctx, pool, time.Minute, read(t, "select pg_sleep(60)::text"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, pgkit.ErrTooSlow)

	_, err = readBounded[string](t.Context(), pool, time.Minute, read(t, "select"+" nothing"))
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "42703", refused.Code)
}

// readBounded returns the rows of one statement.
func readBounded[T any](ctx context.Context, pool *pgxpool.Pool, limit time.Duration, st pgkit.Statement) (all []T, err error) {
	return all, pgkit.ReadBounded(ctx, pool, limit, pgkit.RowsInto(&all, st, pgx.RowTo[T]))
}

// read returns a statement without arguments.
func read(tb testing.TB, sql string) pgkit.Statement {
	tb.Helper()
	q, err := pgkit.LoadQuery(fstest.MapFS{"read.sql": {Data: []byte(sql)}}, "read.sql", "")
	require.NoError(tb, err)
	return q.Bind(nil)
}
