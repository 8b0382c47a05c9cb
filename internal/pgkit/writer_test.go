package pgkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// blockable returns a pool, and a write that has to wait until
// release is called.
func blockable(t *testing.T, changes ...func(*pgxpool.Config)) (pool *pgxpool.Pool, blocked pgkit.Statement, release func()) {
	t.Helper()
	pool = newPool(t, changes...)
	exec(t, pool, "create table t (a int primary key, b int); insert into t values (1, 0), (2, 0)")
	holder, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	tx, err := holder.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select from t where a = 1 for update")
	require.NoError(t, err)
	done := false
	release = func() {
		if !done {
			done = true
			_ = tx.Rollback(context.Background())
			holder.Release()
		}
	}
	t.Cleanup(release)
	return pool, pgkit.Statement{SQL: "update t set b = b + 1 where a = 1"}, release
}

// detach sends a write that has to wait, and leaves it when it does.
func detach(t *testing.T, pool *pgxpool.Pool, w *pgkit.Writer, blocked pgkit.Statement, cause error) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := pgkit.Exec(ctx, w, blocked)
		failed <- err
	}()
	until(t, "the write waits", func() bool { return waiting(t, pool) })
	cancel(cause)
	return <-failed
}

func waiting(tb testing.TB, pool *pgxpool.Pool) bool {
	return queryRow[bool](tb, pool, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
}

var free = pgkit.Statement{SQL: "update t set b = b + 1 where a = 2"}

func TestWriter_goesOnWithoutItsCaller(t *testing.T) {
	t.Parallel()
	pool, blocked, release := blockable(t)
	w := newWriter(t, pool, 0)
	hungUp := errors.New("hung up")
	err := detach(t, pool, w, blocked, hungUp)
	require.ErrorIs(t, err, pgkit.ErrFateUnknown)
	require.ErrorIs(t, err, hungUp)
	require.Equal(t, 1, w.Detached())

	release()
	until(t, "the write is durable", func() bool { return queryRow[int](t, pool, "select b from t where a = 1") == 1 })
	until(t, "it is not detached any more", func() bool { return w.Detached() == 0 })
}

func TestWriter_refuses(t *testing.T) {
	t.Parallel()
	pool, blocked, release := blockable(t)
	w := newWriter(t, pool, 1)

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pgkit.Exec(done, w, free)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, pgkit.ErrFateUnknown)

	require.ErrorIs(t, detach(t, pool, w, blocked, nil), pgkit.ErrFateUnknown)
	_, err = pgkit.Exec(t.Context(), w, free)
	require.ErrorIs(t, err, pgkit.ErrBusy)

	until(t, "it waits no longer than its caller", func() bool { // who may oversleep
		waits, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := pgkit.Exec(waits, w, free)
		require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
		return errors.Is(err, context.DeadlineExceeded)
	})

	release()
	until(t, "nothing is detached", func() bool { return w.Detached() == 0 })
	_, err = pgkit.Exec(t.Context(), w, free)
	require.NoError(t, err)
	require.NoError(t, w.Close(t.Context()))
	_, err = pgkit.Exec(t.Context(), w, free)
	require.ErrorIs(t, err, pgkit.ErrClosed)
	require.Equal(t, 1, queryRow[int](t, pool, "select b from t where a = 2"), "of all these only one was sent")
}

func TestWriter_Close_breaksWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	pool, blocked, _ := blockable(t)
	w := newWriter(t, pool, 0)
	failed := make(chan error, 1)
	go func() {
		_, err := pgkit.Exec(t.Context(), w, blocked)
		failed <- err
	}()
	until(t, "the write is under way", func() bool { return waiting(t, pool) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.Close(ctx), context.DeadlineExceeded)
	require.Error(t, <-failed)
}

// The fate of a refused write is known, and no retry is needed.
func TestWriter_knownFailures(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	w := newWriter(t, pool, 0)
	exec(t, pool, "create table t (a int unique deferrable initially deferred, b int)")
	exec(t, pool, "insert into t values (1, 0)")
	for _, tt := range []struct {
		name string
		send func() error
		want pgkit.Failure
	}{
		{"refused", func() error {
			_, err := pgkit.Exec(t.Context(), w, pgkit.Statement{SQL: "select 1/0"})
			return err
		}, pgkit.FailureRefused},
		{"refused at the end of the statement's own transaction", func() error {
			_, err := pgkit.Exec(t.Context(), w, pgkit.Statement{SQL: "insert into t values (1, 0)"})
			return err
		}, pgkit.FailureRefused},
		{"refused by COMMIT", func() error {
			_, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (int64, error) {
				tag, err := tx.Exec(ctx, "insert into t values (1, 0)")
				return tag.RowsAffected(), err
			})
			return err
		}, pgkit.FailureRefused},
		{"session killed before COMMIT", func() error {
			_, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (int64, error) {
				_, err := tx.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
				return 0, err
			})
			require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
			return err
		}, pgkit.FailureLost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.send()
			require.Error(t, err)
			require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
			if got := pgkit.Classify(err); got != tt.want {
				t.Errorf("Classify(%v) = %d, want %d", err, got, tt.want)
			}
		})
	}
	require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from t"))
}

// A body that hides its failure must not pass for a commit: Postgres answers
// COMMIT with ROLLBACK then, and no error.
func TestTx_failedInside(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	w := newWriter(t, pool, 0)
	_, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		_, _ = tx.Exec(ctx, "select 1/0")
		return true, nil
	})
	require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
	require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
}

func TestRow(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, session("default_transaction_isolation", level))
			w := newWriter(t, pool, 0)
			got, ok, err := pgkit.Row(t.Context(), w, pgkit.Statement{SQL: "select current_setting('transaction_isolation')"}, pgx.RowTo[string])
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "read committed", got)

			_, ok, err = pgkit.Row(t.Context(), w, pgkit.Statement{SQL: "select 1 where false"}, pgx.RowTo[int])
			require.NoError(t, err)
			require.False(t, ok)

			all, err := pgkit.Rows(t.Context(), w, pgkit.Statement{SQL: "select generate_series(1, 3)"}, pgx.RowTo[int])
			require.NoError(t, err)
			require.Equal(t, []int{1, 2, 3}, all)

			exec(t, pool, "create table t (a int)")
			n, err := pgkit.Exec(t.Context(), w, pgkit.Statement{SQL: "insert into t select generate_series(1, 3)"})
			require.NoError(t, err)
			require.EqualValues(t, 3, n)
			require.Equal(t, 3, queryRow[int](t, pool, "select count(*) from t"), "committed, for others to see")

			_, err = pgkit.Exec(t.Context(), w, pgkit.Statement{SQL: "select 1/0"})
			require.Equal(t, pgkit.FailureRefused, pgkit.Classify(err))
			require.EqualValues(t, 0, pool.Stat().AcquiredConns())
		})
	}
}

func TestRetryConflict(t *testing.T) {
	t.Parallel()
	conflict := answer("ERROR", "40001")
	other := errors.New("other")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		errs  []error
		want  error
		tries int
	}{
		{"at once", t.Context(), []error{nil}, nil, 1},
		{"another error", t.Context(), []error{other}, other, 1},
		{"the second time", t.Context(), []error{conflict, nil}, nil, 2},
		{"never", t.Context(), []error{conflict, conflict, conflict, nil}, conflict, 3},
		{"no time left", canceled, []error{conflict, nil}, conflict, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			_, err := pgkit.RetryConflict(tt.ctx, func() (int, error) {
				tries++
				return tries, tt.errs[tries-1]
			})
			if tries != tt.tries && tt.ctx.Err() == nil {
				t.Errorf("tries = %d, want %d", tries, tt.tries)
			}
			require.ErrorIs(t, err, tt.want)
		})
	}
}
