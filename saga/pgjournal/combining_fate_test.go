package pgjournal_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// starting and appending are writes without what they return.
func starting(t *testing.T, j journal.Journal, req journal.StartRequest) func() error {
	return func() error { _, _, err := j.Start(t.Context(), req); return err }
}

func appending(t *testing.T, j journal.Journal, r journal.Record) func() error {
	return func() error {
		return j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}})
	}
}

// Above the queue's limit the next write is refused at once, and no part of it is written. If it
// is sent again, it is treated as any other write.
func TestCombining_queueFull(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	j, pool := openSingle(t, look, pgjournal.Config{MaxQueued: 1})
	engine := beat(t, j, time.Hour)
	r, req := start(t, j, engine), newRequest(engine)
	write, finish := starting(t, j, req), appending(t, j, r)

	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer held.Release()
	leads, waits := inBackground(starting(t, j, newRequest(engine))), inBackground(starting(t, j, newRequest(engine)))
	until(t, "the queue is full", func() bool { return j.Queued() == 1 })
	err = write()
	require.ErrorIs(t, err, pgjournal.ErrQueueFull)
	require.NotErrorIs(t, err, journal.ErrFateUnknown)
	require.NotErrorIs(t, err, journal.ErrLeaseLost)
	appends := inBackground(finish)
	until(t, "what is known of a running saga is admitted", func() bool { return j.Queued() == 2 })
	held.Release()
	for _, done := range []<-chan error{leads, waits, appends} {
		require.NoError(t, <-done)
	}
	require.Equal(t, 2, queryRow[int](t, look, "select count(*) from saga where revision = 1"), "those that were not refused")
	require.Equal(t, 3, queryRow[int](t, look, "select count(*) from saga"))
	require.NoError(t, write())
}

// journalErrors keeps the errors of its journal that an engine tried again after.
type journalErrors struct{ all chan error }

func (o *journalErrors) Observe(_ context.Context, e saga.Event) {
	if e.Kind == saga.EventJournalError {
		select {
		case o.all <- e.Err:
		default:
		}
	}
}

// A caller is told that the queue is full and that no saga was started. A full queue loses no
// outcome of a step. The engine sends the outcome until it is written, and executes the step
// once.
func TestCombining_queueFullUnderAnEngine(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, pgjournal.Migrate)
	j, pool := openSingle(t, look, pgjournal.Config{MaxQueued: 1})
	var runs atomic.Int32
	inStep, goOn := make(chan struct{}), make(chan struct{})
	slow := saga.MustDefine("slow", 1, func(b *saga.Builder[ticket, ticket]) {
		step := saga.StepFunc(b, "a.a", b.Input(), func(_ context.Context, c saga.Call[ticket]) (ticket, error) {
			runs.Add(1)
			close(inStep)
			<-goOn
			return c.Input, nil
		}).ReadOnly()
		saga.Return(b, step.Output())
	})
	observed := &journalErrors{all: make(chan error, 1)}
	e, err := saga.Open(t.Context(), j, saga.Config{
		Client:      client(t, newCallees(t).url, nil),
		Definitions: []saga.AnyDefinition{slow}, Lease: time.Hour, Poll: time.Hour, Observer: observed,
	})
	require.NoError(t, err)
	t.Cleanup(func() { closeEngine(t, e) })
	end := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(end)
	run := inBackground(func() error {
		_, err := slow.Run(t.Context(), e, childkey.MustNew(), ticket{"tour"})
		return err
	})
	<-inStep

	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer held.Release()
	leads, waits := inBackground(starting(t, j, newRequest(newEngine()))), inBackground(starting(t, j, newRequest(newEngine())))
	until(t, "the queue is full", func() bool { return j.Queued() == 1 })
	refused := childkey.MustNew()
	_, err = slow.Run(t.Context(), e, refused, ticket{"tour"})
	require.ErrorIs(t, err, pgjournal.ErrQueueFull)
	for _, other := range []error{journal.ErrFateUnknown, saga.ErrDetached, saga.ErrStuck, saga.ErrCompensated} {
		require.NotErrorIs(t, err, other)
	}
	end()
	until(t, "the step's entry is admitted", func() bool { return j.Queued() == 2 })
	require.Empty(t, observed.all)
	held.Release()
	require.NoError(t, <-leads)
	require.NoError(t, <-waits)
	require.NoError(t, <-run)
	require.EqualValues(t, 1, runs.Load())
	_, err = j.Read(t.Context(), journal.IDOf("", "slow", refused))
	require.ErrorIs(t, err, journal.ErrNotFound)
}

// The session that sent a flush is ended between its commit and the answer. No caller of the
// flush is told of a success or a failure. A caller that asks again finds the stored record. An
// engine asks again by itself.
func TestCombining_sessionEndedDuringCommit(t *testing.T) {
	t.Parallel()
	look := ghostly(t)
	var commits atomic.Value // how those of new connections are
	commits.Store("local")
	j, pool := openSingle(t, look, pgjournal.Config{}, func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
			conn.RuntimeParams["synchronous_commit"] = commits.Load().(string)
			return nil
		}
	})
	c := newCallees(t)
	e := engineWith(t, j, c, saga.Config{Lease: time.Hour, Poll: time.Hour})
	engine := beat(t, j, time.Hour)
	requests := []journal.StartRequest{newRequest(engine), newRequest(engine)}
	records := []journal.Record{start(t, j, engine), start(t, j, engine)}
	run := func(in journey) func() error {
		return func() error {
			_, err := trip.Run(t.Context(), e, childkey.MustNew(), in)
			return err
		}
	}

	commits.Store("on")
	pool.Reset()
	wait := flushing(t, j, pool,
		starting(t, j, requests[0]), appending(t, j, records[0]), run(journey{Trip: "a"}),
		starting(t, j, requests[1]), appending(t, j, records[1]), run(journey{Trip: "b"}),
	)
	pid := backendWaiting(t, look)
	commits.Store("local")
	exec(t, look, "select pg_terminate_backend($1)", pid)
	for i, err := range wait() {
		if i%3 == 2 {
			require.NoError(t, err, "an engine's saga")
			continue
		}
		require.ErrorIs(t, err, journal.ErrFateUnknown, "write %d", i)
	}
	for i := range requests {
		_, created, err := j.Start(t.Context(), requests[i])
		require.NoError(t, err)
		require.True(t, created, "a start that is repeated does not know itself")
		require.NoError(t, appending(t, j, records[i])())
	}
	require.Equal(t, 1, queryRow[int](t, look, "select count(distinct xmin::text) from saga where id = any ($1)",
		[][16]byte{requests[0].ID, requests[1].ID, records[0].ID, records[1].ID}), "they were written by the flush, and not again")
	for _, name := range []string{"a", "b"} {
		c.check(t, name, journal.Completed, "after a flush of unknown fate")
	}
}
