package saga_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// boxed is an input with a field that the older build does not know.
var boxed = grownOrder{SKU: basket.SKU, Cents: basket.Cents, Note: "in a box"}

// claims counts what was claimed by the engines that were opened on it.
type claims struct {
	journal.Journal
	n atomic.Int64
}

func (c *claims) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	claimed, err := c.Journal.Claim(ctx, req)
	c.n.Add(int64(len(claimed)))
	return claimed, err
}

// An older build leaves a saga with a field that it does not know to builds that know the
// field. It sends nothing, and a newer build takes the saga over within a poll. Neither
// the deadline of the saga nor that of its undos passes meanwhile.
func TestDeferred_untilANewerBuildComes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		older, newer := shape(orderOf, idOf, receiptOf), newerShape()
		enqueue(s, newer, "k", boxed)
		for range 3 {
			s.open(older)
		}
		r := s.untilDeferred("k")
		require.Equal(s, journal.Running, r.Status)
		require.True(s, r.Engine.IsZero())
		require.Equal(s, journal.ReasonNewer, r.Deferred.Reason)
		require.Contains(s, r.Deferred.Detail, `has no member "note"`)
		time.Sleep(30 * time.Hour)
		require.Empty(s, s.services.Deliveries())
		require.Equal(s, journal.Running, s.read("k").Status)

		begun := time.Now()
		s.open(newer)
		for s.read("k").Deferred != nil {
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(s, time.Since(begun), 2*saga.DefaultPoll)
	})
}

// Many sagas of a newer build do not keep an older one busy: it claims each once, and
// then a batch a minute. Its own sagas run as ever.
func TestDeferred_noHotLoop(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		const sagas, engines = 120, 2
		older, newer := shape(orderOf, idOf, receiptOf), newerShape()
		for i := range sagas {
			enqueue(s, newer, fmt.Sprint("k-", i), boxed)
		}
		j := &claims{Journal: s.journal}
		for range engines {
			s.openOn(j, older)
		}
		time.Sleep(20 * time.Second)
		enqueue(s, older, "own", basket)
		begun := time.Now()
		s.until("own", journal.Completed)
		require.Less(s, time.Since(begun), 5*time.Second)
		require.LessOrEqual(s, j.n.Load(), int64(sagas+engines*4*100), "claims in the first 20 s")

		time.Sleep(2 * time.Minute) // the waits have grown
		before := j.n.Load()
		time.Sleep(3 * time.Minute)
		require.LessOrEqual(s, j.n.Load()-before, int64(engines*3*100), "claims in 3 minutes")
		st, err := s.journal.Stats(s.Context())
		require.NoError(s, err)
		require.EqualValues(s, sagas, st.Deferred)
	})
}

// measured passes what concerns engines on to metrics.
type measured struct {
	*events
	metrics *saga.Metrics
}

func (m measured) Observe(ctx context.Context, e saga.Event) {
	m.events.Observe(ctx, e)
	m.metrics.Observe(ctx, e)
}

// An operator sees what is deferred and why: in events and metrics, in Stats and in List.
func TestDeferred_isVisible(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		older, newer := shape(orderOf, idOf, receiptOf), newerShape()
		metrics := saga.NewMetrics()
		id := enqueue(s, newer, "k", boxed)
		e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{older}, Observer: measured{s.events, metrics}})
		s.untilDeferred("k")
		time.Sleep(6 * saga.DefaultLease)
		left := s.events.first(saga.EventLeftToNewer)
		require.Equal(s, id, left.ID)
		require.ErrorIs(s, left.Err, saga.ErrNewer)
		deferred := s.events.first(saga.EventDeferred)
		require.Equal(s, 1, deferred.Count)
		require.ErrorIs(s, deferred.Err, saga.ErrNewer)
		require.ErrorContains(s, deferred.Err, `has no member "note"`)
		require.EqualValues(s, 1, metrics.Snapshot().Deferred)
		require.Positive(s, metrics.Snapshot().LeftToNewer)
		st, err := e.Stats(s.Context())
		require.NoError(s, err)
		require.EqualValues(s, 1, st.Deferred)
		require.EqualValues(s, 1, st.Unowned)
		listed, err := e.Reader().Browse(s.Context(), journal.BrowseRequest{Limit: 10})
		require.NoError(s, err)
		require.Contains(s, listed[0].Deferred.Detail, `has no member "note"`)

		r, err := e.Abandon(s.Context(), id, someone)
		require.NoError(s, err)
		require.Nil(s, r.Deferred)
	})
}

// wide is a saga with two steps beside each other. Its plan does not depend on Held.
func wide[Held any]() *saga.Definition[order, nothing] {
	return saga.MustDefine("wide", 1, func(b *saga.Builder[order, nothing]) {
		held := saga.Step(b, contract.Post[order, Held]("inventory", "reserve", "/reservations"), b.Input()).
			Undo(contract.Post[contract.Undo[order, Held], undone]("inventory", "release", "/reservations/release"))
		saga.Step(b, pay, b.Input()).Undo(refund)
		saga.Step(b, book, saga.Map(b.Input(), func(order) booking { return booking{} })).After(held).Irreversible()
	})
}

// A saga whose undo meets an unknown field waits for the running calls and writes their outcomes.
// Then it is deferred.
func TestDeferred_afterCallsUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		older, newer := wide[hold](), wide[grownHold]()
		req, err := newer.Request(key(s.T, "k"), basket)
		require.NoError(s, err)
		req.Engine = journal.EngineID{1}
		_, _, err = s.journal.Start(s.Context(), req)
		require.NoError(s, err)
		held := journal.Entry{Step: "inventory.reserve", Outcome: retry.Completed, Result: []byte(`{"ID":"h-1","Warehouse":"w"}`), Forced: "ann"}
		require.NoError(s, s.journal.Append(s.Context(), journal.Owner{ID: req.ID, Engine: req.Engine, Fence: 1},
			journal.Write{Revision: 2, Entries: []journal.Entry{held}}))
		s.services.Script("payment.charge", sagatest.Slow(5*time.Second))
		s.services.Script("shipping.book", sagatest.Reject(409))

		s.open(older)
		r := s.untilDeferred("k")
		require.Equal(s, journal.Compensating, r.Status)
		require.Len(s, r.Entries, 3)
		for _, entry := range r.Entries {
			require.False(s, entry.Pending, "%s was under way when the saga was deferred", entry.Step)
		}
		s.wantEffects("payment.charge", 1, 0)
		s.open(newer)
		s.until("k", journal.Compensated)
		s.wantEffects("payment.charge", 1, 1)
	})
}
