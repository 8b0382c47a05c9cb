package pgstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

func effect(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "insert into effect values ($1)", "once")
	return err
}

func neverCalled(context.Context, pgx.Tx) error { return errors.New("the work was done again") }

func TestStore_OnceFunc(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			pool := ledger(t)
			seen := new(trips)
			s := openOn(t, pool, pgstore.Config{Isolation: level}, size(1), seen.watch)
			once := func(key, payload string, work func(context.Context, pgx.Tx) error) (bool, error) {
				return s.OnceFunc(t.Context(), invoice(t, key, payload), work)
			}
			first, err := once("j", "p", effect) // the connection describes the statements
			require.NoError(t, err)
			require.True(t, first)
			require.EqualValues(t, 3, seen.count(func() { first, err = once("k", "p", effect) }),
				"BEGIN with the key, the work, COMMIT")
			require.NoError(t, err)
			require.True(t, first)
			for range 2 {
				first, err = once("k", "p", neverCalled)
				require.NoError(t, err)
				require.False(t, first)
				first, err = once("k", "q", neverCalled)
				require.ErrorIs(t, err, &store.RefusedError{Code: wire.KeyReused})
				require.False(t, first)
			}
			require.Equal(t, 2, queryRow[int](t, pool, "select count(*) from effect"))
			require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from effect e join idempotency i on e.xmin = i.xmin where i.key = $1",
				[16]byte(store.NewID("tenant", "", keyOf(t, "k")))), "one transaction")
			again, err := bill(t.Context(), pool, "", invoice(t, "k", "p"))
			require.NoError(t, err)
			require.False(t, again, "all forms know each other's keys")
		})
	}
}

func TestStore_OnceFunc_concurrently(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{})
	var callers sync.WaitGroup
	var firsts atomic.Int32
	for range 64 {
		callers.Go(func() {
			first, err := s.OnceFunc(t.Context(), invoice(t, "k", "p"), effect)
			if err != nil {
				t.Error(err)
			}
			if first {
				firsts.Add(1)
			}
		})
	}
	callers.Wait()
	require.EqualValues(t, 1, firsts.Load())
	require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from effect"))
}

// If the work is not committed for any reason, the key can be used again.
func TestStore_OnceFunc_workFails(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{}, size(1))
	exec(t, pool, "create table own (id int unique deferrable initially deferred)")
	own := errors.New("no")
	for _, tt := range []struct {
		name string
		work func(context.Context, pgx.Tx) error
		want error
		code string // of Postgres
	}{
		{"an error", func(context.Context, pgx.Tx) error { return own }, own, ""},
		{"a failed statement", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into nowhere values ($1)", 1)
			return err
		}, nil, "42P01"},
		{"a failed statement that it keeps to itself", func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "select 1/0")
			return nil
		}, pgstore.ErrTxFailed, ""},
		{"rows left open", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "select generate_series(1, 10)") //nolint:sqlclosecheck // the mistake
			return err
		}, pgstore.ErrTxBusy, ""},
		{"COMMIT", func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }, pgstore.ErrTxOwned, ""},
		{"ROLLBACK", func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }, pgstore.ErrTxOwned, ""},
		{"what COMMIT refuses", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into own values (1), (1)")
			return err
		}, nil, "23505"},
		{"a conflict", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "do $$ begin raise sqlstate '40P01'; end $$")
			return err
		}, store.ErrConflict, "40P01"},
		{"a conflict that it made an error of its own of", func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "do $$ begin raise sqlstate '40001'; end $$")
			return own
		}, store.ErrConflict, ""},
		{"a ctx that ends", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select 1")
			return err
		}, context.Canceled, ""},
		{"a ctx that ends, which nobody notices", func(context.Context, pgx.Tx) error { return nil }, context.Canceled, ""},
	} {
		ctx := t.Context()
		if errors.Is(tt.want, context.Canceled) {
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(ctx)
			inner := tt.work
			tt.work = func(ctx context.Context, tx pgx.Tx) error {
				stop()
				return inner(ctx, tx)
			}
		}
		var kept pgx.Tx
		first, err := s.OnceFunc(ctx, invoice(t, "k", "p"), func(ctx context.Context, tx pgx.Tx) error {
			kept = tx
			return errors.Join(effect(context.WithoutCancel(ctx), tx), tt.work(ctx, tx))
		})
		require.False(t, first, tt.name)
		require.NotErrorIs(t, err, store.ErrFateUnknown, tt.name)
		if tt.want != nil {
			require.ErrorIs(t, err, tt.want, tt.name)
		}
		if tt.code != "" {
			pgErr := new(pgconn.PgError)
			require.ErrorAs(t, err, &pgErr, tt.name)
			require.Equal(t, tt.code, pgErr.Code, tt.name)
		}
		_, err = kept.Exec(t.Context(), "select 1")
		require.ErrorIs(t, err, pgstore.ErrTxEnded, tt.name)
	}
	require.PanicsWithValue(t, "no", func() {
		_, _ = s.OnceFunc(t.Context(), invoice(t, "k", "p"), func(ctx context.Context, tx pgx.Tx) error {
			require.NoError(t, effect(ctx, tx))
			panic("no")
		})
	})
	require.Zero(t, queryRow[int](t, pool, "select count(*) from effect"))
	first, err := s.OnceFunc(t.Context(), invoice(t, "k", "p"), effect)
	require.NoError(t, err)
	require.True(t, first, "the pool's one connection is free, and so is the key")
}

// The work finds its transaction in its ctx, for database/sql too.
func TestStore_OnceFunc_context(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{})
	first, err := s.OnceFunc(t.Context(), invoice(t, "k", "p"), func(ctx context.Context, _ pgx.Tx) error {
		tx, err := pgstore.SQLTx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "insert into effect values ($1)", "sql")
		return errors.Join(err, effect(ctx, pgstore.Tx(ctx)))
	})
	require.NoError(t, err)
	require.True(t, first)
	require.Equal(t, 1, queryRow[int](t, pool, "select count(distinct xmin::text) from effect"))
	require.Equal(t, 2, queryRow[int](t, pool, "select count(*) from effect"))
}

func TestStore_OnceFunc_badInput(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	seen := new(trips)
	s := openOn(t, pool, pgstore.Config{}, seen.watch)
	for name, change := range map[string]func(*pgstore.OnceRequest){
		"no scope": func(r *pgstore.OnceRequest) { r.Scope = "" },
		"no name":  func(r *pgstore.OnceRequest) { r.Name = "" },
		"no key":   func(r *pgstore.OnceRequest) { r.Key = childkey.Key{} },
		"negative": func(r *pgstore.OnceRequest) { r.Keep = -1 },
	} {
		req := invoice(t, "k", "p")
		change(&req)
		require.Zero(t, seen.count(func() {
			_, err := s.OnceFunc(t.Context(), req, neverCalled)
			require.ErrorIs(t, err, pgstore.ErrArgument, name)
		}), name)
	}
	_, err := s.OnceFunc(t.Context(), invoice(t, "k", "p"), nil)
	require.ErrorIs(t, err, pgstore.ErrArgument)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.OnceFunc(ended, invoice(t, "k", "p"), neverCalled)
	require.ErrorIs(t, err, context.Canceled)
	s.Close()
	_, err = s.OnceFunc(t.Context(), invoice(t, "k", "p"), neverCalled)
	require.Error(t, err)
}

// The fate of the COMMIT is unknown if its caller leaves or the server dies
// during it. A second call with the key returns the fate.
func TestStore_OnceFunc_fate(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	exec(t, look, "create table effect (what text)")
	s := waitingStore(t, look, pgstore.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := inBackground(func() error { _, err := s.OnceFunc(ctx, invoice(t, "left", "p"), effect); return err })
	backendWaiting(t, look)
	cancel()
	require.ErrorIs(t, <-done, store.ErrFateUnknown)

	done = inBackground(func() error { _, err := s.OnceFunc(t.Context(), invoice(t, "killed", "p"), effect); return err })
	until(t, "both wait", func() bool {
		return queryRow[int](t, look, "select count(*) from pg_stat_activity where wait_event = 'SyncRep'") == 2
	})
	require.NoError(t, syscall.Kill(backendWaiting(t, look), syscall.SIGKILL)) // the server ends them all
	require.ErrorIs(t, <-done, store.ErrFateUnknown)

	local := reopened(t, look)
	for _, key := range []string{"left", "killed"} {
		first, err := local.OnceFunc(t.Context(), invoice(t, key, "p"), neverCalled)
		require.NoError(t, err)
		require.False(t, first, "it was durable")
	}
	require.Equal(t, 2, queryRow[int](t, look, "select count(*) from effect"))
}
