package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestTx_outsideARun(t *testing.T) {
	t.Parallel()
	tx := pgstore.Tx(context.Background())
	_, err := tx.Exec(t.Context(), "select 1")
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	_, err = tx.Query(t.Context(), "select 1") //nolint:sqlclosecheck // there are no rows to close
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	require.ErrorIs(t, tx.QueryRow(t.Context(), "select 1").Scan(), pgstore.ErrNoTx)
	_, err = tx.Begin(t.Context())
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	_, err = tx.CopyFrom(t.Context(), pgx.Identifier{"t"}, nil, nil)
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	batch := new(pgx.Batch)
	batch.Queue("select 1")
	require.ErrorIs(t, tx.SendBatch(t.Context(), batch).Close(), pgstore.ErrNoTx)
	_, err = tx.Prepare(t.Context(), "n", "select 1")
	require.ErrorIs(t, err, pgstore.ErrNoTx)
	require.ErrorIs(t, tx.Commit(t.Context()), pgstore.ErrNoTx)
	require.Nil(t, tx.Conn())
}

func TestTx_belongsToTheGuard(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	o := claim(t, s)
	tx, ctx := begin(t, s)
	require.ErrorIs(t, pgstore.Tx(ctx).Commit(ctx), pgstore.ErrTxOwned)
	require.ErrorIs(t, pgstore.Tx(ctx).Rollback(ctx), pgstore.ErrTxOwned)
	savepoint, err := pgstore.Tx(ctx).Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, savepoint.Rollback(ctx))
	require.NoError(t, tx.Settle(t.Context(), o, completion))
	_, err = pgstore.Tx(ctx).Exec(ctx, "select 1")
	require.ErrorIs(t, err, pgstore.ErrTxEnded, "a goroutine that outlived its run")
}

// Postgres answers COMMIT in a failed transaction with ROLLBACK and no error.
func TestTx_failedStatementIsNotCommittedSilently(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table t (n int unique)")
	o := claim(t, s)
	tx, ctx := begin(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into t values (1)")
	require.NoError(t, err)
	_, err = pgstore.Tx(ctx).Exec(ctx, "insert into t values (1)")
	require.Error(t, err)
	require.ErrorIs(t, tx.Settle(t.Context(), o, completion), pgstore.ErrTxFailed)
	require.Zero(t, queryRow[int](t, look, "select count(*) from t"))
	require.Equal(t, store.StateInProgress, read(t, s, o.ID).State)
}

func TestTx_rowsLeftOpen(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{})
	o := claim(t, s)
	tx, ctx := begin(t, s)
	rows, err := pgstore.Tx(ctx).Query(ctx, "select generate_series(1, 10)")
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.ErrorIs(t, tx.Settle(t.Context(), o, completion), pgstore.ErrTxBusy)
	rows.Close()
	require.NoError(t, s.Settle(t.Context(), o, completion), "the owner is as it was")
}

// A deferred constraint fails only at COMMIT.
func TestTx_failsAtCommit(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table t (n int unique deferrable initially deferred)")
	o := claim(t, s)
	tx, ctx := begin(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "insert into t values (1), (1)")
	require.NoError(t, err)
	err = tx.Settle(t.Context(), o, completion)
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrFateUnknown, "the server said what happened")
	require.Equal(t, store.StateInProgress, read(t, s, o.ID).State)
}

// The handler may have ignored the error on any path. The guard still learns
// that another run can help.
func TestTx_conflictOnAnyPath(t *testing.T) {
	t.Parallel()
	conflict := "do $$ begin raise exception 'x' using errcode = '40001'; end $$"
	paths := []struct {
		name string
		do   func(ctx context.Context, tx pgx.Tx) error
	}{
		{"Exec", func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, conflict); return err }},
		{"Query", func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, conflict)
			if err != nil {
				return err
			}
			rows.Close()
			return rows.Err()
		}},
		{"QueryRow", func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, conflict).Scan() }},
		{"SendBatch", func(ctx context.Context, tx pgx.Tx) error {
			batch := new(pgx.Batch)
			batch.Queue(conflict)
			return tx.SendBatch(ctx, batch).Close()
		}},
		{"savepoint", func(ctx context.Context, tx pgx.Tx) error {
			savepoint, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			_, err = savepoint.Exec(ctx, conflict)
			return errors.Join(err, savepoint.Rollback(ctx))
		}},
		{"past pgstore", func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Conn().Exec(ctx, conflict); return err }},
	}
	s, _ := open(t, pgstore.Config{})
	for _, path := range paths {
		t.Run(path.name, func(t *testing.T) {
			o := claim(t, s)
			tx, ctx := begin(t, s)
			require.NoError(t, tx.Err())
			require.Error(t, path.do(ctx, pgstore.Tx(ctx)))
			require.ErrorIs(t, tx.Err(), store.ErrConflict)
			if path.name != "savepoint" { // there the rest of the transaction is sound
				require.ErrorIs(t, tx.Settle(t.Context(), o, completion), store.ErrConflict)
			}
			require.NoError(t, tx.Rollback(t.Context()))
			require.ErrorIs(t, tx.Err(), store.ErrConflict, "also after the end")
		})
	}
}

// An undo holds its forward key for the length of its transaction. A claim of
// that key waits no longer than its limit, and changes nothing.
func TestClaim_behindALockedKey(t *testing.T) {
	t.Parallel()
	s, _ := open(t, pgstore.Config{LockTimeout: 50 * time.Millisecond})
	req := newClaim()
	tx, ctx := begin(t, s)
	_, existed, err := tx.Cancel(ctx, store.CancelRequest{ID: req.ID, Token: random(), Keep: time.Hour})
	require.NoError(t, err)
	require.False(t, existed)
	_, _, err = s.Claim(t.Context(), req)
	require.Equal(t, pgkit.FailureLockTimeout, pgkit.Classify(err), "error = %v", err)
	require.NotErrorIs(t, err, store.ErrFateUnknown)
	require.NoError(t, tx.Rollback(t.Context()))
	claimAs(t, s, req)
}

// A handler that ends the transaction without pgx cannot be stopped. But its
// answer must not count as committed with its rows.
func TestTx_endedByTheHandler(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{
		"commit", "rollback", "commit and chain", "ROLLBACK AND CHAIN", "commit; begin", "select ';'; end; start transaction", "/* ; */ abort and chain",
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, pgstore.Config{})
			o := claim(t, s)
			tx, ctx := begin(t, s)
			_, err := pgstore.Tx(ctx).Exec(ctx, statement)
			require.NoError(t, err)
			require.ErrorIs(t, tx.Settle(t.Context(), o, completion), pgstore.ErrTxOwned)
			require.Equal(t, store.StateInProgress, read(t, s, o.ID).State)
		})
	}
}

// Two runs wait for each other. One of them gets a conflict, at COMMIT or
// before, commits nothing, and can run again.
func TestTx_deadlock(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, "create table t (id int primary key, n int not null)")
	exec(t, look, "insert into t values (1, 0), (2, 0)")
	outcome := make(chan error, 2)
	var met [2]chan struct{}
	met[0], met[1] = make(chan struct{}), make(chan struct{})
	for i := range 2 {
		o := claim(t, s)
		go func() {
			outcome <- func() error {
				tx, err := s.Begin(t.Context())
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
				ctx := tx.NewContext(t.Context())
				for step, id := range []int{1 + i, 2 - i} {
					if step == 1 {
						close(met[i])
						<-met[1-i]
					}
					_, _ = pgstore.Tx(ctx).Exec(ctx, "update t set n = n + 1 where id = $1", id) // swallowed
				}
				return tx.Settle(t.Context(), o, completion)
			}()
		}()
	}
	first, second := <-outcome, <-outcome
	if first == nil {
		first, second = second, first
	}
	require.ErrorIs(t, first, store.ErrConflict)
	require.NoError(t, second)
	require.Equal(t, 2, queryRow[int](t, look, "select sum(n) from t"))
}

// A handler that does not end delays Close by CloseTimeout, and keeps its connection until it ends.
func TestStore_Close_withATransactionOpen(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{CloseTimeout: 10 * time.Millisecond}, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["application_name"] = "handlers"
	})
	tx, ctx := unbegun(t, s)
	require.NoError(t, effect(ctx, pgstore.Tx(ctx)))
	s.Close() // it returns
	sessions := "select count(*) from pg_stat_activity where application_name = 'handlers' and datname = current_database()"
	require.Equal(t, 1, queryRow[int](t, pool, sessions))
	require.NoError(t, tx.Rollback(t.Context()))
	until(t, "the connection is closed", func() bool { return queryRow[int](t, pool, sessions) == 0 })
}
