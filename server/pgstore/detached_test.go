package pgstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// A call whose caller has left waits for another transaction's lock only for a limited time. Without a limit each
// such call would keep a connection, until the process has none left for any key.
func TestDetached_waitsForLocksEnd(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(t *testing.T, s *pgstore.Store, tx pgx.Tx) (wait func(context.Context) error){
		"a claim": func(t *testing.T, s *pgstore.Store, tx pgx.Tx) func(context.Context) error {
			req := claimOf(store.NewID("tenant", "", keyOf(t, "k")))
			once(t, tx, "k")
			return func(ctx context.Context) error { _, _, err := s.Claim(ctx, req); return err }
		},
		"SendOnce": func(t *testing.T, s *pgstore.Store, tx pgx.Tx) func(context.Context) error {
			once(t, tx, "k")
			return func(ctx context.Context) error {
				b := new(pgx.Batch)
				b.Queue("insert into effect values ('x')")
				_, err := s.SendOnce(ctx, invoice(t, "k", "p"), b)
				return err
			}
		},
		"an intent": func(t *testing.T, s *pgstore.Store, tx pgx.Tx) func(context.Context) error {
			_, err := s.Intents().Stage(t.Context(), tx, "checkout", "order-42")
			require.NoError(t, err)
			var parent string
			require.NoError(t, tx.QueryRow(t.Context(), "select key from idempotency_intent").Scan(&parent))
			key, err := childkey.Parse(parent)
			require.NoError(t, err)
			return func(ctx context.Context) error {
				_, _, err := s.Intents().Begin(ctx, key, "checkout", []string{"order-42"})
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := ledger(t)
			s := openOn(t, pool, pgstore.Config{LockTimeout: 300 * time.Millisecond}, size(2))
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.Background()) }()
			wait := hold(t, s, tx)
			ctx, cancel := context.WithCancel(t.Context())
			left := inBackground(func() error {
				for {
					err := wait(ctx)
					if pgkit.Classify(err) != pgkit.FailureLockTimeout { // it ended before the test looked
						return err
					}
				}
			})
			until(t, "it waits", func() bool { return waits(t, pool, "transactionid") })
			cancel()
			err = <-left
			require.True(t, errors.Is(err, store.ErrFateUnknown) || errors.Is(err, context.Canceled), // a claim waits without a connection
				"%v", err)
			until(t, "others can write, and the lock is still held", func() bool {
				_, _, err := s.Claim(t.Context(), newClaim())
				if err != nil {
					require.ErrorIs(t, err, pgstore.ErrBusy)
				}
				return err == nil
			})
		})
	}
}

func once(t *testing.T, tx pgx.Tx, key string) {
	t.Helper()
	first, err := pgstore.Once(t.Context(), tx, invoice(t, key, "p"))
	require.NoError(t, err)
	require.True(t, first)
}

// The time limit of SendOnce for the key does not limit the work behind the key.
func TestSendOnce_lockTimeoutOfTheWork(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{LockTimeout: time.Second}, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["lock_timeout"] = "7s"
	})
	b := new(pgx.Batch)
	b.Queue("insert into effect select current_setting('lock_timeout')")
	first, err := s.SendOnce(t.Context(), invoice(t, "k", "p"), b)
	require.NoError(t, err)
	require.True(t, first)
	require.Equal(t, "7s", queryRow[string](t, pool, "select what from effect"))
}

// A sweep skips the answers of records that another transaction, such as an undo's, holds.
func TestSweep_answerOfAHeldRecord(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	end := completion
	end.KeepAnswer = time.Microsecond
	held, free := claim(t, s), claim(t, s)
	require.NoError(t, s.Settle(t.Context(), held, end))
	require.NoError(t, s.Settle(t.Context(), free, end))
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "select from idempotency where key = $1 for update", [16]byte(held.ID))
	require.NoError(t, err)
	_, err = s.Sweep(t.Context(), 1000)
	require.NoError(t, err)
	bodies := "select count(*) from idempotency where envelope is not null"
	require.Equal(t, 1, queryRow[int](t, look, bodies))
	require.NoError(t, tx.Rollback(t.Context()))
	until(t, "it comes to it again", func() bool {
		_, err = s.Sweep(t.Context(), 1000)
		require.NoError(t, err)
		return queryRow[int](t, look, bodies) == 0
	})
}

// Even if many records expire at the same moment, sweeps reach the records behind them.
func TestSweep_manyOfOneMoment(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	for range 40 {
		claim(t, s)
	}
	exec(t, look, "update idempotency set expires_at = (select min(expires_at) from idempotency)") // as of one flush
	req := newClaim()
	req.Keep = 2 * newClaim().Keep
	o := claimAs(t, s, req)
	end := completion
	end.KeepAnswer = time.Microsecond
	require.NoError(t, s.Settle(t.Context(), o, end))
	for range 4 {
		_, err := s.Sweep(t.Context(), 3)
		require.NoError(t, err)
	}
	require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency where envelope is not null"))
}

// Commits of OnceFunc whose caller has left count like all others: half of the connections stay free for readers.
func TestOnceFunc_detached(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	exec(t, look, "create table effect (what text)")
	s := openOn(t, look, pgstore.Config{CloseTimeout: time.Millisecond}, size(2), func(p *pgxpool.Config) {
		p.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	})
	ctx, cancel := context.WithCancel(t.Context())
	left := inBackground(func() error { _, err := s.OnceFunc(ctx, invoice(t, "a", "p"), effect); return err })
	backendWaiting(t, look)
	cancel()
	require.ErrorIs(t, <-left, store.ErrFateUnknown)
	_, err := s.OnceFunc(t.Context(), invoice(t, "b", "p"), neverCalled)
	require.ErrorIs(t, err, pgstore.ErrBusy)
	require.NotErrorIs(t, err, store.ErrFateUnknown)
	_, err = s.Read(t.Context(), random())
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A connection that lost its prepared statements fails one call only. So does a server that is not the primary any
// more.
func TestOnceFunc_mends(t *testing.T) {
	t.Parallel()
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		pool := ledger(t)
		s := openOn(t, pool, pgstore.Config{}, size(1))
		first, err := s.OnceFunc(t.Context(), invoice(t, "a", "p"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "deallocate all")
			return errors.Join(err, effect(ctx, tx))
		})
		require.NoError(t, err)
		require.True(t, first)
		_, err = s.OnceFunc(t.Context(), invoice(t, "b", "p"), neverCalled)
		require.Error(t, err)
		first, err = s.OnceFunc(t.Context(), invoice(t, "b", "p"), effect)
		require.NoError(t, err)
		require.True(t, first)
	})
	t.Run("read-only", func(t *testing.T) {
		t.Parallel()
		pool := ledger(t)
		var connections atomic.Int32
		s := openOn(t, pool, pgstore.Config{}, size(1), func(p *pgxpool.Config) {
			p.AfterConnect = func(context.Context, *pgx.Conn) error { connections.Add(1); return nil }
		})
		first, err := s.OnceFunc(t.Context(), invoice(t, "a", "p"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "set default_transaction_read_only = on") // as a server that was demoted
			return errors.Join(err, effect(ctx, tx))
		})
		require.NoError(t, err)
		require.True(t, first)
		before := connections.Load()
		_, err = s.OnceFunc(t.Context(), invoice(t, "b", "p"), neverCalled)
		require.Equal(t, pgkit.FailureReadOnly, pgkit.Classify(err), err)
		first, err = s.OnceFunc(t.Context(), invoice(t, "b", "p"), effect)
		require.NoError(t, err)
		require.True(t, first)
		require.Equal(t, before+1, connections.Load())
	})
}

// The end of a run does not wait for statements that its handler left running, under either driver.
func TestTx_sqlLeftRunning(t *testing.T) {
	t.Parallel()
	pool := ledger(t)
	s := openOn(t, pool, pgstore.Config{})
	tx, ctx := unbegun(t, s)
	stx, err := pgstore.SQLTx(ctx)
	require.NoError(t, err)
	_, err = stx.ExecContext(ctx, "select $1::int", 1)
	require.NoError(t, err)
	left := inBackground(func() error {
		_, err := stx.ExecContext(context.WithoutCancel(ctx), "select pg_sleep(600), $1::int", 1)
		return err
	})
	until(t, "it sleeps", func() bool { return waits(t, pool, "PgSleep") })
	_ = tx.Rollback(t.Context())
	require.Error(t, <-left)
	exec(t, pool, "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()")
}

// A record may have a longer retention than this process gives its own claims: another process claimed it, or this
// one did before its configuration changed. There is still a partition for its answer.
func TestTakeOver_claimedForLonger(t *testing.T) {
	t.Parallel()
	look := ledger(t)
	s := openOn(t, look, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	require.NoError(t, s.MaintainPartitions(t.Context(), time.Hour))
	req := newClaim()
	req.Keep = 30 * 24 * time.Hour
	o := claimAs(t, openOn(t, look, pgstore.Config{Answers: pgstore.AnswersPartitioned}), req)
	exec(t, look, "update idempotency set lease_until = now()")
	again := claimOf(req.ID)
	again.Keep = time.Hour
	r, won, err := s.TakeOver(t.Context(), again, o.Fence)
	require.NoError(t, err)
	require.True(t, won)
	require.NoError(t, s.Settle(t.Context(), store.Owner{ID: req.ID, Token: again.Token, Fence: r.Fence}, completion))
	r, err = s.Read(t.Context(), req.ID)
	require.NoError(t, err)
	require.Equal(t, completion.Answer, r.Answer)
}
