package pgstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// No caller may rely on a row that is visible here and on no standby: a failover loses that row.

func cancelWait(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	exec(t, look, "select pg_cancel_backend("+strconv.Itoa(backendWaiting(t, look))+")")
}

// waitsToo wants do to wait for the standby, and to give up with its ctx.
func waitsToo(t *testing.T, look *pgxpool.Pool, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := inBackground(func() error { return do(ctx) })
	pid := backendWaiting(t, look)
	cancel()
	require.Error(t, <-done)
	exec(t, look, "select pg_terminate_backend("+strconv.Itoa(pid)+")")
	until(t, "nobody waits any more", func() bool { return !waits(t, look, "SyncRep") })
}

// A repeated claim finds its own record, and its handler may run.
func TestBelieved_ownClaim(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := waitingStore(t, look, pgstore.Config{})
	req := newClaim()
	claimed := func(ctx context.Context) error { _, _, err := s.Claim(ctx, req); return err }
	done := inBackground(func() error { return claimed(t.Context()) })
	cancelWait(t, look)
	require.ErrorIs(t, <-done, store.ErrFateUnknown)
	waitsToo(t, look, claimed)

	other := req
	other.Token = random()
	r, won, err := s.Claim(t.Context(), other)
	require.NoError(t, err, "to others it promises nothing")
	require.False(t, won)
	require.Equal(t, server.StateInProgress, r.State)
}

func TestBelieved_ownTakeOver(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := waitingStore(t, look, pgstore.Config{})
	local := openOn(t, look, pgstore.Config{ConfirmReplays: pgstore.ConfirmNever})
	req := newClaim()
	o := claimAs(t, local, req)
	require.NoError(t, local.Settle(t.Context(), o, store.Settlement{State: server.StateReleased}))
	req.Token = random()
	takeOver := func(ctx context.Context) error { _, _, err := s.TakeOver(ctx, req, o.Fence); return err }
	done := inBackground(func() error { return takeOver(t.Context()) })
	cancelWait(t, look)
	require.ErrorIs(t, <-done, store.ErrFateUnknown)
	waitsToo(t, look, takeOver)
}

// A caller that asks again hears "done before" only when the effect is durable.
func TestBelieved_once(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	exec(t, look, "create table effect (what text)")
	s := waitingStore(t, look, pgstore.Config{})
	req := invoice(t, "k", "p")
	done := inBackground(func() error { _, err := s.OnceFunc(t.Context(), req, effect); return err })
	cancelWait(t, look)
	require.ErrorIs(t, <-done, store.ErrFateUnknown)
	batch := new(pgx.Batch)
	batch.Queue("insert into effect values ('again')")
	waiting, err := pgxpool.ParseConfig(look.Config().ConnString())
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), waiting)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for name, again := range map[string]func(context.Context) error{
		"OnceFunc": func(ctx context.Context) error { _, err := s.OnceFunc(ctx, req, neverCalled); return err },
		"SendOnce": func(ctx context.Context) error { _, err := s.SendOnce(ctx, req, batch); return err },
		"Once": func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				first, err := pgstore.Once(ctx, tx, req)
				if first {
					err = errors.Join(err, errors.New("it was done before"))
				}
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) { waitsToo(t, look, again) })
	}
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from effect"))
}

// The cause of the end of the caller's ctx does not describe the write. An errgroup, for example, cancels with a
// sibling's error.
func TestBelieved_causeIsNoFate(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	exec(t, look, "create table effect (what text)")
	s := waitingStore(t, look, pgstore.Config{})
	batch := new(pgx.Batch)
	batch.Queue("insert into effect values ('x')")
	leaves := func(cause error, do func(context.Context) error) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := inBackground(func() error { return do(ctx) })
		pid := backendWaiting(t, look)
		cancel(cause)
		err := <-done
		exec(t, look, "select pg_terminate_backend("+strconv.Itoa(pid)+")")
		until(t, "nobody waits any more", func() bool { return !waits(t, look, "SyncRep") })
		return err
	}
	err := leaves(&pgconn.PgError{Severity: "ERROR", Code: "40001"}, func(ctx context.Context) error {
		_, err := s.OnceFunc(ctx, invoice(t, "k", "p"), effect)
		return err
	})
	require.ErrorIs(t, err, store.ErrFateUnknown)
	require.NotErrorIs(t, err, store.ErrConflict)
	err = leaves(&pgconn.PgError{Severity: "ERROR", Code: "23505", TableName: "idempotency", ConstraintName: "idempotency_pkey"}, func(ctx context.Context) error {
		_, err := s.SendOnce(ctx, invoice(t, "l", "p"), batch)
		return err
	})
	require.ErrorIs(t, err, store.ErrFateUnknown)
}

// A handler that wants to hear no warnings hears the one that counts.
func TestBelieved_handlerHearsNoWarnings(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	s := waitingStore(t, look, pgstore.Config{})
	local := openOn(t, look, pgstore.Config{})
	req := newClaim()
	req.Effect = server.Transactional
	o := claimAs(t, local, req)
	tx, ctx := unbegun(t, s)
	_, err := pgstore.Tx(ctx).Exec(ctx, "set local client_min_messages = error")
	require.NoError(t, err)
	done := inBackground(func() error { return tx.Settle(t.Context(), o, completion) })
	cancelWait(t, look)
	require.ErrorIs(t, <-done, store.ErrFateUnknown)
}

// behind returns a store on a primary whose synchronous standby has ceased to follow. fail makes the standby the
// primary. The tests cancel the first commit that waits for the standby, like an operator who sees a session hang.
func behind(t *testing.T) (s *pgstore.Store, look *pgxpool.Pool, fail func()) {
	t.Helper()
	primary, standby, url := replicated(t)
	pool := func(url string) *pgxpool.Pool {
		p, err := pgxpool.New(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		return p
	}
	look = pool(url)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))
	exec(t, look, "create table effect (what text)")
	s = openOn(t, look, pgstore.Config{CloseTimeout: time.Millisecond})
	stands := pool(standby.URL("shop"))
	until(t, "the standby has all", func() bool {
		return queryRow[bool](t, stands, "select to_regclass('effect') is not null")
	})
	exec(t, stands, "alter system set primary_conninfo = ''")
	exec(t, stands, "select pg_reload_conf()")
	until(t, "the standby has ceased to follow", func() bool {
		return queryRow[int](t, look, "select count(*) from pg_stat_replication") == 0
	})
	return s, look, func() { failover(t, primary, standby) }
}

// While the standby is away, no Opaque effect is made under a claim that a failover would lose.
func TestFailover_forgottenClaim(t *testing.T) {
	t.Parallel()
	s, look, fail := behind(t)
	g, err := server.NewGuard(s, server.Unscoped, server.Config{Lease: 2 * time.Second})
	require.NoError(t, err)
	var made atomic.Int32
	charge := func(ctx context.Context) error {
		task := server.Task{Name: "charge", Scope: "tenant", Effect: server.Opaque, Wait: -1}
		_, _, err := server.Do(ctx, g, task, keyOf(t, "k"), "p", func(context.Context, string) (int, error) {
			return int(made.Add(1)), nil // at the bank
		})
		return err
	}
	done := inBackground(func() error { return charge(t.Context()) })
	cancelWait(t, look)
	until(t, "it runs, or waits to be sure of its claim", func() bool { return made.Load() > 0 || waits(t, look, "SyncRep") })
	fail()
	<-done
	until(t, "the new primary has it done", func() bool { return charge(t.Context()) == nil })
	require.EqualValues(t, 1, made.Load())
}
