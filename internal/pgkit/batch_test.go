package pgkit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// numbersBatch inserts a number, and gives it to a function.
func numbersBatch(do func(pgx.Row) error) *pgx.Batch {
	batch := new(pgx.Batch)
	batch.Queue("insert into n values ($1) returning a", 7).QueryRow(do)
	return batch
}

// The batch is committed although a function returns an error, whatever the error looks like.
func TestSendBatch_functionFails(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	w := newWriter(t, pool, 0)
	exec(t, pool, "create table n (a int check (a > 0))")
	for i, own := range []error{
		errors.New("plain"), pgkit.ErrBusy, pgkit.ErrStatement,
		&pgconn.PgError{Severity: "ERROR", Code: "23514", Message: "from another database"},
	} {
		t.Run(own.Error(), func(t *testing.T) {
			err := pgkit.SendBatch(t.Context(), w, numbersBatch(func(row pgx.Row) error {
				var a int
				return errors.Join(row.Scan(&a), own)
			}), false)
			require.ErrorIs(t, err, pgkit.ErrFateUnknown)
			require.ErrorIs(t, err, own)
			require.Equal(t, pgkit.FailureLost, pgkit.Classify(err))
			require.Equal(t, i+1, queryRow[int](t, pool, "select count(*) from n"))
		})
	}
	refused := new(pgx.Batch)
	refused.Queue("insert into n values ($1)", -1).Exec(func(pgconn.CommandTag) error { return nil })
	require.Equal(t, pgkit.FailureRefused, pgkit.Classify(pgkit.SendBatch(t.Context(), w, refused, false)), "the server's own answer")
}

// A panic in a function is its caller's to recover, and ends nothing else.
func TestSendBatch_functionPanics(t *testing.T) {
	t.Parallel()
	pool := newPool(t, oneConnection)
	w := newWriter(t, pool, 0)
	exec(t, pool, "create table n (a int)")
	func() {
		defer func() { require.Contains(t, fmt.Sprint(recover()), "of my own") }()
		_ = pgkit.SendBatch(t.Context(), w, numbersBatch(func(pgx.Row) error { panic("of my own") }), false)
		t.Error("it did not go up")
	}()
	require.NoError(t, pgkit.SendBatch(t.Context(), w, numbersBatch(func(row pgx.Row) error { var a int; return row.Scan(&a) }), false))
	require.NoError(t, w.Close(t.Context()))
}

// A function runs in its caller's goroutine, whether that goroutine sends the batch or waits for it. So
// a function can end that goroutine, as a test does that fails.
func TestSendBatch_functionOfTheCaller(t *testing.T) {
	t.Parallel()
	pool := newPool(t, oneConnection)
	w := newWriter(t, pool, 0)
	exec(t, pool, "create table n (a int)")
	for name, ctx := range map[string]context.Context{"stays": context.WithoutCancel(t.Context()), "may leave": t.Context()} {
		var a int
		require.NoError(t, pgkit.SendBatch(ctx, w, numbersBatch(func(row pgx.Row) error { return row.Scan(&a) }), false), name)
		require.Equal(t, 7, a, name)
		ended, returned := make(chan struct{}), false
		go func() {
			defer close(ended)
			_ = pgkit.SendBatch(ctx, w, numbersBatch(func(pgx.Row) error { runtime.Goexit(); return nil }), false)
			returned = true
		}()
		<-ended
		require.False(t, returned, name)
		require.NoError(t, pgkit.SendBatch(ctx, w, numbersBatch(func(row pgx.Row) error { return row.Scan(&a) }), false), "the connection is free: %s", name)
	}
	until(t, "nothing is left", func() bool { return w.Detached() == 0 })
}

// The functions of a batch are not called after its caller has gone: their variables belong to the
// caller again.
func TestSendBatch_functionsOfWhoHasLeft(t *testing.T) {
	t.Parallel()
	pool, _, release := blockable(t)
	w := newWriter(t, pool, 0)
	var b int
	batch := new(pgx.Batch)
	batch.Queue("update t set b = b + 1 where a = $1 returning b", 1).QueryRow(func(row pgx.Row) error { return row.Scan(&b) })
	batch.Queue("update t set b = b + 1 where a = $1", 2).Exec(func(pgconn.CommandTag) error { b = -1; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- pgkit.SendBatch(ctx, w, batch, false) }()
	until(t, "the write waits", func() bool { return waiting(t, pool) })
	cancel()
	require.ErrorIs(t, <-failed, pgkit.ErrFateUnknown)
	b = 42 // by the race detector, too
	release()
	until(t, "it is durable", func() bool { return queryRow[int](t, pool, "select sum(b) from t") == 2 })
	until(t, "it is over", func() bool { return w.Detached() == 0 })
	require.Equal(t, 42, b)
}

// The cause of an ended ctx is not the fate of the write.
func TestClassify_causeOfTheEnd(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{
		pgkit.ErrQueueFull,
		&pgconn.PgError{Severity: "ERROR", Code: "40001", Message: "a sibling's"},
		&pgconn.ConnectError{},
	} {
		t.Run(fmt.Sprintf("%T", cause), func(t *testing.T) {
			t.Parallel()
			pool, blocked, release := blockable(t)
			defer release()
			err := detach(t, pool, newWriter(t, pool, 0), blocked, cause)
			require.ErrorIs(t, err, cause)
			require.Equal(t, pgkit.FailureLost, pgkit.Classify(err))
		})
	}
}

// A write that begins without the writer also waits until few enough writes are detached.
func TestWriter_Admit(t *testing.T) {
	t.Parallel()
	pool, blocked, release := blockable(t)
	w := newWriter(t, pool, 1)
	require.NoError(t, w.Admit(t.Context()))
	require.ErrorIs(t, detach(t, pool, w, blocked, nil), pgkit.ErrFateUnknown)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorIs(t, w.Admit(ctx), pgkit.ErrBusy)
	release()
	until(t, "nothing is detached", func() bool { return w.Detached() == 0 })
	require.NoError(t, w.Admit(t.Context()))
}
