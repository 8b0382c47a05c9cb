package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// entries is a guard over a store with a table of entries. Its pool has one
// connection only: a second one would be waited for without end.
func entries(tb testing.TB, changes ...func(*pgxpool.Config)) (*server.Guard, *pgxpool.Pool) {
	tb.Helper()
	one := func(cfg *pgxpool.Config) { cfg.MaxConns = 1 }
	keys, look := open(tb, pgstore.Config{}, append(changes, one)...)
	exec(tb, look, "create table entry (id int primary key, what text)")
	g, err := server.NewGuard(keys, server.Unscoped, server.Config{})
	require.NoError(tb, err)
	return g, look
}

// do runs fn once for key.
func do(tb testing.TB, g *server.Guard, effect server.Effect, key string, fn func(context.Context) (int, error)) (int, error) {
	tb.Helper()
	k, err := childkey.Parse(key)
	require.NoError(tb, err)
	task := server.Task{Name: "test", Scope: "tenant", Effect: effect}
	n, _, err := server.Do(tb.Context(), g, task, k, 0, func(ctx context.Context, _ int) (int, error) { return fn(ctx) })
	return n, err
}

// withEntry returns the run's transaction, in which it has written an entry.
func withEntry(ctx context.Context, tb testing.TB, id int) *sql.Tx {
	tb.Helper()
	tx, err := pgstore.SQLTx(ctx)
	require.NoError(tb, err)
	_, err = tx.ExecContext(ctx, "insert into entry values ($1, 'sql')", id)
	require.NoError(tb, err)
	return tx
}

func TestSQLTx(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe} {
		g, look := entries(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
		for range 2 {
			n, err := do(t, g, server.Transactional, "k", func(ctx context.Context) (n int, err error) {
				tx := withEntry(ctx, t, 1)
				again, err := pgstore.SQLTx(ctx)
				require.NoError(t, err)
				require.Same(t, tx, again)
				_, err = pgstore.Tx(ctx).Exec(ctx, "insert into entry values ($1, $2)", 2, "pgx")
				require.NoError(t, err)
				stmt, err := tx.PrepareContext(ctx, "select count(*) from entry where id < $1")
				require.NoError(t, err)
				defer stmt.Close()
				return n, stmt.QueryRowContext(ctx, 10).Scan(&n)
			})
			require.NoError(t, err)
			require.Equal(t, 2, n, "both see what the other wrote")
		}
		require.Equal(t, 2, queryRow[int](t, look, "select count(*) from entry"))
	}
}

func TestSQLTx_rollsBackWithTheRun(t *testing.T) {
	t.Parallel()
	g, look := entries(t)
	_, err := do(t, g, server.Transactional, "k", func(ctx context.Context) (int, error) {
		withEntry(ctx, t, 1)
		return 0, errors.New("no")
	})
	require.Error(t, err)
	require.Zero(t, queryRow[int](t, look, "select count(*) from entry"))
}

// The guard ends the transaction: a handler's deferred Rollback has no effect,
// and its Commit commits nothing.
func TestSQLTx_isNotTheHandlersToEnd(t *testing.T) {
	t.Parallel()
	g, look := entries(t)
	var leaked *sql.Tx
	var leakedCtx context.Context
	_, err := do(t, g, server.Transactional, "rollback", func(ctx context.Context) (int, error) {
		leaked, leakedCtx = withEntry(ctx, t, 1), ctx
		defer func() { require.ErrorIs(t, leaked.Rollback(), pgstore.ErrTxOwned) }()
		return 0, nil
	})
	require.NoError(t, err)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from entry"))

	_, err = do(t, g, server.Transactional, "commit", func(ctx context.Context) (int, error) {
		tx := withEntry(ctx, t, 2)
		require.ErrorIs(t, tx.Commit(), pgstore.ErrTxOwned)
		_, err := tx.ExecContext(ctx, "insert into entry values (3, 'sql')")
		require.ErrorIs(t, err, sql.ErrTxDone)
		return 0, errors.New("no")
	})
	require.Error(t, err)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from entry"))

	_, err = leaked.ExecContext(t.Context(), "insert into entry values (9, 'late')")
	require.ErrorIs(t, err, sql.ErrTxDone)
	_, err = pgstore.SQLTx(leakedCtx)
	require.ErrorIs(t, err, pgstore.ErrTxEnded)
	_, err = pgstore.SQLTx(t.Context())
	require.ErrorIs(t, err, pgstore.ErrNoTx)
}

// A conflict makes the run start over even if the handler ignores the error.
func TestSQLTx_conflict(t *testing.T) {
	t.Parallel()
	g, look := entries(t)
	runs := 0
	n, err := do(t, g, server.Transactional, "k", func(ctx context.Context) (int, error) {
		runs++
		tx := withEntry(ctx, t, 1)
		if runs == 1 {
			_, err := tx.ExecContext(ctx, "do $$ begin raise exception using errcode = '40001'; end $$")
			require.Error(t, err)
		}
		return runs, nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from entry"))
}

func TestSQLTx_openRows(t *testing.T) {
	t.Parallel()
	g, look := entries(t)
	_, err := do(t, g, server.Transactional, "k", func(ctx context.Context) (int, error) {
		tx := withEntry(ctx, t, 1)
		rows, err := tx.QueryContext(ctx, "select generate_series(1, 100000)") //nolint:sqlclosecheck,rowserrcheck // the mistake
		require.NoError(t, err)
		require.True(t, rows.Next())
		return 0, nil
	})
	require.ErrorIs(t, err, pgstore.ErrTxBusy)
	require.Zero(t, queryRow[int](t, look, "select count(*) from entry"))
	_, err = do(t, g, server.Transactional, "next", func(context.Context) (int, error) { return 0, nil })
	require.NoError(t, err, "the pool has a connection again")
}

func TestSQLTx_inACompletionHook(t *testing.T) {
	t.Parallel()
	g, look := entries(t)
	_, err := do(t, g, server.Keyed, "k", func(ctx context.Context) (int, error) {
		_, err := pgstore.SQLTx(ctx)
		require.ErrorIs(t, err, pgstore.ErrNoTx)
		return 0, store.OnComplete(ctx, func(ctx context.Context) error {
			tx, err := pgstore.SQLTx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "insert into entry values (1, 'sql')")
			return err
		})
	})
	require.NoError(t, err)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from entry"))
}
