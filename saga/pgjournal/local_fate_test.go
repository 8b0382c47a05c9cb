package pgjournal_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
)

// The answer to COMMIT is lost behind the commit. The next attempt, and the undo, find what it did.
func TestLocalFate_committed(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	local := openOn(t, look, pgjournal.Config{Confirm: pgjournal.ConfirmNever})
	s := newLocalStep(t, local, look)
	s.j = waiting(t, look, pgjournal.Config{})
	done := inBackground(func() error { _, err := s.run(t.Context(), pay); return err })
	exec(t, look, "select pg_terminate_backend($1)", backendWaiting(t, look))
	err := <-done
	require.ErrorIs(t, err, saga.ErrFateUnknown)
	require.Zero(t, said(err), "unknown")
	require.Equal(t, 1, s.paid(t))
	s.j = local
	out, err := s.run(t.Context(), neverPay(t))
	require.NoError(t, err)
	require.Equal(t, "paid tea", out)
	require.NoError(t, s.undo(t.Context(), unpay))
	require.Zero(t, s.paid(t))
}

// The session ends in COMMIT, before anything is durable.
func TestLocalFate_notCommitted(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	exec(t, s.look, `create function die() returns trigger language plpgsql as 'begin perform pg_terminate_backend(pg_backend_pid()); return null; end';
		create table mortal (id int); create constraint trigger dies after insert on mortal deferrable initially deferred for each row execute function die()`)
	_, err := s.run(t.Context(), func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
		_, err := tx.Exec(ctx, "insert into mortal values (1)")
		require.NoError(t, err)
		return pay(ctx, tx, in)
	})
	require.ErrorIs(t, err, saga.ErrFateUnknown)
	require.Zero(t, said(err), "unknown")
	require.Zero(t, s.paid(t))
	require.NoError(t, s.undo(t.Context(), func(_ context.Context, _ pgx.Tx, _ string, out *string) error {
		require.Nil(t, out)
		return nil
	}))
	_, err = s.run(t.Context(), neverPay(t))
	require.Equal(t, retry.Rejected, said(err))
}

// payments are a saga whose steps are rows of the service itself. The second step fails if refuse is set.
func payments(tb testing.TB, j *pgjournal.Journal, first stepFunc, refuse error) *saga.Definition[string, string] {
	tb.Helper()
	d, err := saga.Define("payments", 1, func(b *saga.Builder[string, string]) {
		paid := saga.StepFunc(b, "shop.pay", b.Input(), pgjournal.Local(j, first)).UndoFunc("shop.unpay", pgjournal.UndoLocal(j, unpay))
		sent := saga.StepFunc(b, "shop.send", paid.Output(), pgjournal.Local(j, func(context.Context, pgx.Tx, string) (string, error) {
			return "sent", refuse
		})).UndoFunc("shop.unsend", pgjournal.UndoLocal(j, unpay))
		saga.Return(b, saga.Map2(paid.Output(), sent.Output(), func(a, b string) string { return a + ", " + b }))
	})
	require.NoError(tb, err)
	return d
}

func engineFor(tb testing.TB, j journal.Journal, d saga.AnyDefinition) *saga.Engine {
	tb.Helper()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"other": {URL: "http://other.internal"}}})
	require.NoError(tb, err)
	e, err := saga.Open(tb.Context(), j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{d}})
	require.NoError(tb, err)
	tb.Cleanup(func() { closeEngine(tb, e) })
	return e
}

func TestLocal_underAnEngine(t *testing.T) {
	t.Parallel()
	testLocalUnderAnEngine(t, openLocalStep(t, pgjournal.Config{}))
}

// The role of services has the rights that local steps need, and their sweep.
func TestLocal_asRuntimeRole(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgjournal.Config{})
	r := roles(t, look)
	exec(t, look, "create table paid (what text)")
	exec(t, look, "grant insert, select, delete on paid to "+r.Runtime)
	s := newLocalStep(t, openOn(t, look, pgjournal.Config{}, as(r.Runtime)), look)
	testLocalUnderAnEngine(t, s)
	write(t, s.j, s.saga, journal.Write{Status: journal.Completed, Keep: time.Microsecond})
	until(t, "it is swept", func() bool {
		n, err := s.j.Sweep(t.Context(), 10)
		require.NoError(t, err)
		return n == 1
	})
}

func TestDistributed_local(t *testing.T) {
	t.Parallel()
	look := distributedTables(t)
	testLocalUnderAnEngine(t, newLocalStep(t, openOn(t, look, pgjournal.Config{}), look))
}

func testLocalUnderAnEngine(t *testing.T, s localStep) {
	t.Helper()
	d := payments(t, s.j, pay, nil)
	e := engineFor(t, s.j, d)
	got, err := d.Run(t.Context(), e, childkey.MustNew(), "tea")
	require.NoError(t, err)
	require.Equal(t, "paid tea, sent", got)
	require.Equal(t, 1, s.paid(t))

	other := payments(t, s.j, pay, saga.Rejected(errors.New("no stamps")))
	closeEngine(t, e)
	e = engineFor(t, s.j, other)
	_, err = other.Run(t.Context(), e, childkey.MustNew(), "coffee")
	require.ErrorIs(t, err, saga.ErrCompensated)
	require.ErrorContains(t, err, "no stamps")
	require.Zero(t, queryRow[int](t, s.look, "select count(*) from paid where what = 'coffee'"))
}

// An error that a function states nothing about is tried again, and is no reason for an undo.
func TestLocal_triedAgain(t *testing.T) {
	t.Parallel()
	s := openLocalStep(t, pgjournal.Config{})
	var tries atomic.Int32
	d := payments(t, s.j, func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
		out, err := pay(ctx, tx, in)
		if tries.Add(1) < 3 {
			return "", errors.Join(err, errors.New("not yet"))
		}
		return out, err
	}, nil)
	got, err := d.Run(t.Context(), engineFor(t, s.j, d), childkey.MustNew(), "tea")
	require.NoError(t, err)
	require.Equal(t, "paid tea, sent", got)
	require.Equal(t, 1, s.paid(t))
	require.EqualValues(t, 3, tries.Load())
}

// The owner before stood still in its step for longer than its lease, with its transaction open. Its successor waits
// for that transaction. Then one of the two commits the step.
func TestLocal_zombie(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"it commits": nil, "it fails": errors.New("interrupted")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openLocalStep(t, pgjournal.Config{})
			stands, goes := make(chan struct{}), make(chan struct{})
			zombie := pgjournal.Local(s.j, func(ctx context.Context, tx pgx.Tx, in string) (string, error) {
				close(stands)
				<-goes
				out, err := pay(ctx, tx, in)
				return out, errors.Join(err, end)
			})
			ended := make(chan error, 1)
			d, err := saga.Define("payments", 1, func(b *saga.Builder[string, string]) {
				paid := saga.StepFunc(b, "shop.pay", b.Input(), func(ctx context.Context, call saga.Call[string]) (string, error) {
					go func() {
						_, err := zombie(context.WithoutCancel(ctx), call)
						ended <- err
					}()
					<-stands
					return pgjournal.Local(s.j, pay)(ctx, call)
				}).UndoFunc("shop.unpay", pgjournal.UndoLocal(s.j, unpay))
				saga.Return(b, paid.Output())
			})
			require.NoError(t, err)
			e := engineFor(t, s.j, d)
			ran := inBackground(func() error {
				got, err := d.Run(t.Context(), e, childkey.MustNew(), "tea")
				if err == nil && got != "paid tea" {
					err = errors.New(got)
				}
				return err
			})
			<-stands
			until(t, "the owner waits for the row", func() bool {
				return queryRow[bool](t, s.look, "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'saga_local' and datname = current_database())")
			})
			close(goes)
			require.NoError(t, <-ran)
			require.ErrorIs(t, <-ended, end)
			require.Equal(t, 1, s.paid(t))
		})
	}
}
