package pgkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

func TestNewWriter_refuses(t *testing.T) {
	t.Parallel()
	_, err := pgkit.NewWriter(nil, 0)
	require.ErrorIs(t, err, pgkit.ErrNotPrepared)
	_, err = pgkit.NewWriter(newPool(t), -1)
	require.ErrorContains(t, err, "-1 is negative")
}

func TestWriter_Close_waits(t *testing.T) {
	t.Parallel()
	pool, blocked, release := blockable(t)
	w := newWriter(t, pool, 0)
	require.ErrorIs(t, detach(t, pool, w, blocked, nil), pgkit.ErrFateUnknown)
	closed := make(chan error, 2)
	for range cap(closed) { // a second Close waits as well
		go func() { closed <- w.Close(t.Context()) }()
	}
	until(t, "it takes no more", func() bool {
		_, err := pgkit.Exec(t.Context(), w, free)
		return errors.Is(err, pgkit.ErrClosed)
	})
	require.Empty(t, closed, "a write is under way")
	release()
	require.NoError(t, <-closed)
	require.NoError(t, <-closed)
	require.Equal(t, 0, w.Detached())
	require.Equal(t, 1, queryRow[int](t, pool, "select b from t where a = 1"))
	require.NoError(t, w.Close(t.Context()), "closed already")
}

// The server finishes what it was asked to do before the connection broke.
func TestWriter_Close_withEndedCtx(t *testing.T) {
	t.Parallel()
	pool, blocked, release := blockable(t)
	w := newWriter(t, pool, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := pgkit.Exec(t.Context(), w, blocked)
		failed <- err
	}()
	until(t, "the write is under way", func() bool { return waiting(t, pool) })
	require.ErrorIs(t, w.Close(ended), context.Canceled)
	require.ErrorIs(t, <-failed, pgkit.ErrFateUnknown)
	_, err := pgkit.Exec(t.Context(), w, free)
	require.ErrorIs(t, err, pgkit.ErrClosed)
	release()
	until(t, "the write is durable", func() bool { return queryRow[int](t, pool, "select b from t where a = 1") == 1 })
}

func TestWriter_lostConnection(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	w := newWriter(t, pool, 0)
	_, err := pgkit.Exec(t.Context(), w, pgkit.Statement{SQL: "select pg_terminate_backend(pg_backend_pid())"})
	require.ErrorIs(t, err, pgkit.ErrFateUnknown)
	require.Equal(t, pgkit.FailureLost, pgkit.Classify(err))
	_, err = pgkit.Exec(t.Context(), w, pgkit.Statement{SQL: "select 1"})
	require.NoError(t, err, "on a new connection")
}

func TestWriter_badStatement(t *testing.T) {
	t.Parallel()
	q, err := pgkit.LoadQuery(statements, "move.sql", "")
	require.NoError(t, err)
	_, err = pgkit.Exec(t.Context(), newWriter(t, newPool(t), 0), q.Bind(nil))
	require.ErrorIs(t, err, pgkit.ErrStatement)
	require.Equal(t, pgkit.FailureNotSent, pgkit.Classify(err))
}

func TestTx(t *testing.T) {
	t.Parallel()
	pool := newPool(t, session("default_transaction_isolation", "serializable"))
	w := newWriter(t, pool, 0)
	exec(t, pool, "create table t (a text)")
	insertLevel := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into t values (current_setting('transaction_isolation'))")
		return err
	}
	ok, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (bool, error) { return true, insertLevel(ctx, tx) })
	require.NoError(t, err)
	require.True(t, ok)

	changedMind := errors.New("changed its mind")
	_, err = pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		return true, errors.Join(insertLevel(ctx, tx), changedMind)
	})
	require.ErrorIs(t, err, changedMind)
	require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
	require.Equal(t, "read committed", queryRow[string](t, pool, "select string_agg(a, ',') from t"))
	require.EqualValues(t, 1, pool.Stat().NewConnsCount(), "what was rolled back kept its connection")
}

// BeforeConnect has a part of Prepare behind it that no other hook shows.
func TestPrepare_keepsBeforeConnect(t *testing.T) {
	t.Parallel()
	refusal := errors.New("not now")
	pool := newPoolAt(t, "host=127.0.0.1 port=1", func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return refusal }
	})
	require.ErrorIs(t, pool.Ping(t.Context()), refusal)
}
