package pgjournal_test

import (
	"context"
	"errors"
	"flag"
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

var (
	inBackoff = flag.Int("pgjournal.backoff", 40, "how many sagas of one definition are in backoff in TestBackoff")
	fresh     = flag.Int("pgjournal.fresh", 6, "how many sagas of another definition come at least while they are")
)

// A stall is a saga whose callee is down: it waits, is tried, and waits. Its first waits are
// shorter than a lease: it holds a place of the engine. Then it sleeps.
type stall struct {
	lease time.Duration
	def   *saga.Definition[int, nothing]
	tries []atomic.Int32 // by the saga's input
	left  atomic.Int32   // sagas that were not tried yet
}

func newStall(n int) *stall {
	// The more there are the longer they wait, or the machine is busy with their tries.
	s := &stall{lease: max(3*time.Second, time.Duration(n)*1500*time.Microsecond), tries: make([]atomic.Int32, n)}
	s.left.Store(int32(n)) //nolint:gosec // a flag of a test
	s.def = saga.MustDefine("stalled", 1, func(b *saga.Builder[int, nothing]) {
		saga.StepFunc(b, "a.down", b.Input(), func(_ context.Context, c saga.Call[int]) (nothing, error) {
			if s.tries[c.Input].Add(1) == 1 {
				s.left.Add(-1)
			}
			return nothing{}, errors.New("connection refused")
		}).Irreversible().Retry(saga.RetryPolicy{Attempts: 1000, Backoff: retry.Backoff{Base: s.lease / 15, Cap: 20 * s.lease}})
	})
	return s
}

// enqueueAll stores sagas that no engine has, of many callers at once.
func enqueueAll(tb testing.TB, j *pgjournal.Journal, d *saga.Definition[int, nothing], n int) {
	tb.Helper()
	next := make(chan int)
	var wg sync.WaitGroup
	failed := make(chan error, n)
	for range 32 {
		wg.Go(func() {
			for i := range next {
				failed <- enqueueOne(tb.Context(), j, d, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	for range n {
		require.NoError(tb, <-failed)
	}
}

func enqueueOne[In, Out any](ctx context.Context, j journal.Journal, d *saga.Definition[In, Out], in In) error {
	req, err := d.Request(childkey.MustNew(), in)
	if err != nil {
		return err
	}
	_, _, err = j.Start(ctx, req)
	return err
}

// Many sagas of one definition are in backoff: they hold places of the engine, wait for one, or
// sleep in the journal. A fresh saga of another definition begins within a second, whoever stored it.
//
// Not parallel: it measures how long something takes.
func TestBackoff_keepsNobodyWaiting(t *testing.T) {
	j, look := open(t, pgjournal.Config{})
	down := newStall(*inBackoff)
	begun := make(chan time.Time, 1)
	quick := saga.MustDefine("quick", 1, func(b *saga.Builder[int, nothing]) {
		saga.StepFunc(b, "b.up", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
			begun <- time.Now()
			return nothing{}, nil
		}).Irreversible()
	})
	enqueueAll(t, j, down.def, *inBackoff)
	e, err := saga.Open(t.Context(), j, saga.Config{
		Definitions: []saga.AnyDefinition{down.def, quick}, Lease: down.lease, MaxActive: 10 + *inBackoff/10,
	})
	require.NoError(t, err)
	t.Cleanup(func() { closeEngine(t, e) })
	slowest := watchMachine(t, look)
	delays := make(map[bool][]time.Duration) // by whether this process stored the saga
	for n := 0; n < *fresh || down.left.Load() > 0; n++ {
		time.Sleep(time.Duration(n%5+1) * 70 * time.Millisecond) // to any time between two polls
		here := n%2 == 0
		stored := time.Now()
		if here {
			_, err = quick.Start(t.Context(), e, childkey.MustNew(), n)
		} else {
			err = enqueueOne(t.Context(), j, quick, n)
		}
		require.NoError(t, err)
		delays[here] = append(delays[here], (<-begun).Sub(stored))
	}
	stood := slowest()
	st, err := j.Stats(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, st.ByStatus[journal.Running], int64(min(*inBackoff, journal.StatsLimit)), "they wait")
	for here, all := range delays {
		slices.Sort(all)
		t.Logf("%d sagas in backoff, %d of them asleep in the end; stored by this process: %v; %d fresh ones began after %v (median) and %v (most)",
			*inBackoff, st.Asleep, here, len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
		require.Less(t, all[len(all)-1], time.Second+2*stood) // nobody is faster than the machine
	}
	t.Logf("a query that does nothing took %v at most", stood.Round(time.Millisecond))
}
