package pgjournal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// An operator in its own process, without an engine, lists the stuck sagas and says that a call
// did not happen. The operator stores no lease and no plan. An engine in another process
// continues the saga.
func TestOperator(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	c := newCallees(t)
	key := childkey.MustNew()
	req, err := trip.Request(key, journey{Trip: "t"})
	require.NoError(t, err)
	req.Engine = beat(t, j, time.Hour)
	r, created, err := j.Start(t.Context(), req)
	require.NoError(t, err)
	require.True(t, created)
	unknown := journal.Entry{Step: "hotel.book", Outcome: retry.Unknown, At: r.Now, Attempts: 3}
	refused := journal.Entry{Step: "hotel.book", Undo: true, Outcome: retry.Rejected, At: r.Now, Attempts: 1, Status: 422}
	r = write(t, j, r, journal.Write{Status: journal.Compensating, Entries: []journal.Entry{unknown}, Cause: &journal.Failure{Reason: journal.ReasonCancel}})
	r = write(t, j, r, journal.Write{Status: journal.Stuck, Entries: []journal.Entry{refused}, StuckOn: &journal.Failure{Step: "hotel.book", Undo: true}})

	o, err := saga.NewOperator(j, trip)
	require.NoError(t, err)
	stuck, err := o.Reader().Browse(t.Context(), journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 10})
	require.NoError(t, err)
	require.Len(t, stuck, 1)
	by := journal.Audit{Actor: "ann", Reason: "the hotel has no such guest", Revision: stuck[0].Revision}
	r, err = o.ForceRejected(t.Context(), r.ID, "hotel.book", by)
	require.NoError(t, err)
	require.Equal(t, journal.Compensating, r.Status)
	read, err := o.Lookup(t.Context(), r.ID)
	require.NoError(t, err)
	for _, e := range []journal.Entry{
		{Step: "hotel.book", Outcome: retry.Rejected, Attempts: 3, Forced: "ann"},
		{Step: "hotel.book", Undo: true, Outcome: retry.Completed, Attempts: 1, Forced: "ann", Nothing: true},
	} {
		e.At = read.Entries[0].At
		require.Contains(t, read.Entries, e)
	}
	_, err = o.ForceRejected(t.Context(), r.ID, "hotel.book", by)
	require.ErrorIs(t, err, saga.ErrConflict)
	log, err := o.Reader().AuditPage(t.Context(), journal.AuditRequest{ID: r.ID, Limit: 10})
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, journal.Audit{Verb: journal.VerbForceRejected, Step: "hotel.book", Actor: "ann", Reason: by.Reason}, log[0].Audit)
	require.Equal(t, 1, queryRow[int](t, look, "select count(*) from saga_engine"), "the dead engine's")
	require.Zero(t, queryRow[int](t, look, "select count(*) from saga_plan"))

	engineWith(t, j, c, saga.Config{Poll: quickPoll})
	require.Equal(t, journal.Compensated, ended(t, j, r.ID).Status)
	require.Empty(t, c.deliveries(), "the hotel was asked again")
}

// An operator in a process of its own wakes a saga that waits in an engine's memory, and one that
// waits in the table.
func TestRetryNow(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	c := newCallees(t)
	var up atomic.Bool
	var tries atomic.Int32
	packed := make(chan struct{})
	endPack := sync.OnceFunc(func() { close(packed) })
	t.Cleanup(endPack) // the engine waits for its functions
	d := saga.MustDefine("transfer", 1, func(b *saga.Builder[journey, nothing]) {
		saga.StepFunc(b, "bank.transfer", b.Input(), func(context.Context, saga.Call[journey]) (nothing, error) {
			tries.Add(1)
			if !up.Load() {
				return nothing{}, errors.New("no connection")
			}
			return nothing{}, nil
		}).ReadOnly().Retry(saga.RetryPolicy{Backoff: retry.Backoff{Base: 1000 * time.Hour, Cap: 1000 * time.Hour}})
		saga.StepFunc(b, "shop.pack", b.Input(), func(context.Context, saga.Call[journey]) (nothing, error) {
			<-packed // the saga cannot be given up meanwhile
			return nothing{}, nil
		}).ReadOnly().AttemptTimeout(time.Hour)
	})
	engine := func(lease time.Duration) *saga.Engine {
		e, err := saga.Open(t.Context(), openOn(t, look, pgjournal.Config{}), saga.Config{
			Client:      client(t, c.url, nil),
			Definitions: []saga.AnyDefinition{d}, Lease: lease, Poll: quickPoll, Rand: func() float64 { return 0.1 },
		})
		require.NoError(t, err)
		t.Cleanup(func() { closeEngine(t, e) })
		return e
	}
	o, err := saga.NewOperator(j)
	require.NoError(t, err)
	waits := func(id journal.ID) journal.Record {
		var r journal.Record
		until(t, "the next try is in the journal", func() bool {
			r, err = j.Read(t.Context(), id)
			return err == nil && slices.ContainsFunc(r.Entries, func(e journal.Entry) bool { return e.RetryAt.After(r.Now) })
		})
		return r
	}
	by := journal.Audit{Actor: "ann", Reason: "the bank is back"}

	holding := engine(10 * time.Second) // it keeps the wait in its memory, and looks at the saga once per lease
	started, err := d.Start(t.Context(), holding, childkey.MustNew(), journey{Trip: "1"})
	require.NoError(t, err)
	before := waits(started.ID)
	require.False(t, before.Engine.IsZero())
	r, err := o.RetryNow(t.Context(), started.ID, by)
	require.NoError(t, err)
	require.Equal(t, before.Revision+1, r.Revision)
	until(t, "it is tried once more", func() bool { return tries.Load() == 2 })
	after := waits(started.ID)
	require.Equal(t, before.Revision+2, after.Revision, "the wake, and the owner's own next write")
	require.EqualValues(t, 1, after.Wakes)
	up.Store(true)
	_, err = o.RetryNow(t.Context(), started.ID, by)
	require.NoError(t, err)
	until(t, "it is tried again", func() bool { return tries.Load() == 3 })
	endPack()
	require.Equal(t, journal.Completed, ended(t, j, started.ID).Status)
	require.EqualValues(t, 3, tries.Load())
	require.Equal(t, before.Fence, ended(t, j, started.ID).Fence, "it kept its owner")
	log, err := o.Reader().AuditPage(t.Context(), journal.AuditRequest{ID: started.ID, Limit: 10})
	require.NoError(t, err)
	require.Len(t, log, 2)
	require.Equal(t, journal.Audit{Verb: journal.VerbRetryNow, Actor: "ann", Reason: by.Reason}, log[0].Audit)

	up.Store(false)
	closeEngine(t, holding)
	first := engine(time.Minute)
	started, err = d.Start(t.Context(), first, childkey.MustNew(), journey{Trip: "2"})
	require.NoError(t, err)
	waits(started.ID)
	closeEngine(t, first)
	engine(time.Minute)
	up.Store(true)
	r, err = o.RetryNow(t.Context(), started.ID, by)
	require.NoError(t, err)
	require.False(t, r.WakeAt.After(r.Now))
	require.Equal(t, journal.Completed, ended(t, j, started.ID).Status)
	require.EqualValues(t, 5, tries.Load())
}

// An owner goes on writing while people wake its saga all the time. Each write finds the saga, and
// none is lost.
func TestRetryNow_besideWrites(t *testing.T) {
	t.Parallel()
	j, _ := open(t, pgjournal.Config{})
	o, err := saga.NewOperator(j)
	require.NoError(t, err)
	r := start(t, j, beat(t, j, time.Hour))
	waiting := journal.Entry{Step: "z.z", Outcome: retry.NotSent, Pending: true, Attempts: 1, At: r.Now, RetryAt: r.Now.Add(time.Hour)}
	r = write(t, j, r, journal.Write{Entries: []journal.Entry{waiting}})
	const writes = 200
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !over.Load() {
				_, err := o.RetryNow(t.Context(), r.ID, someone)
				if err != nil && !errors.Is(err, saga.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	for n := range writes {
		w := journal.Write{Revision: r.Revision + 1 + int64(n), Entries: []journal.Entry{completed(fmt.Sprint("s.", n)), waiting}}
		require.NoError(t, j.Append(t.Context(), ownerOf(r), w))
	}
	over.Store(true)
	wg.Wait()
	last, err := j.Read(t.Context(), r.ID)
	require.NoError(t, err)
	require.NoError(t, last.Corrupt)
	require.Equal(t, r.Revision+writes+last.Wakes, last.Revision)
	require.Len(t, last.Entries, 1+writes)
	log, err := j.Reader().AuditPage(t.Context(), journal.AuditRequest{ID: r.ID, Limit: 1})
	require.NoError(t, err)
	require.Len(t, log, 1, "nobody got in between")
}
