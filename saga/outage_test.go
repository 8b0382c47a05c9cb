package saga_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// unhurried is a step that takes its time, and looks at its ctx.
func unhurried(takes time.Duration, running *atomic.Int32) *saga.Definition[int, nothing] {
	return saga.MustDefine("unhurried", 1, func(b *saga.Builder[int, nothing]) {
		b.Timeout(1000 * time.Hour)
		saga.StepFunc(b, "a.do", b.Input(), func(ctx context.Context, _ saga.Call[int]) (nothing, error) {
			running.Add(1)
			defer running.Add(-1)
			select {
			case <-time.After(takes):
				return nothing{}, nil
			case <-ctx.Done():
				return nothing{}, ctx.Err()
			}
		}).ReadOnly().AttemptTimeout(takes + time.Minute)
	})
}

// The journal has two hundred outages, each of one and a half leases. No process dies, so no saga
// gets stuck, although none makes progress before the end of the outages. This holds for one
// process. It also holds for two, of which either comes back first.
func TestOutage_isNoDeath(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2} {
		inBubble(t, func(s *stage) {
			const outages, sagas, lease = 200, 20, 500 * time.Millisecond
			d := unhurried(10*time.Second, new(atomic.Int32))
			var cuts []*atomic.Bool
			for range processes {
				j, cut := severable(s.journal)
				cuts = append(cuts, cut)
				s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{d}, Lease: lease, Poll: lease / 2})
			}
			for i := range sagas {
				enqueue(s, d, fmt.Sprint("k-", i), i)
			}
			for n := range outages {
				time.Sleep(2 * time.Second)
				for _, cut := range cuts {
					cut.Store(true)
				}
				time.Sleep(lease + lease/2)
				cuts[n%processes].Store(false)
				time.Sleep(lease / 5)
				for _, cut := range cuts {
					cut.Store(false)
				}
			}
			require.GreaterOrEqual(s, s.events.count(saga.EventLeaseLost), outages, "each outage took the lease")
			require.Greater(s, s.read("k-0").Fence, int64(outages/2), "each outage took the owner")
			begun := time.Now()
			for i := range sagas {
				s.until(fmt.Sprint("k-", i), journal.Completed)
			}
			require.Less(s, time.Since(begun), 30*time.Second, "they go on side by side")
		})
	}
}

// A process that dies in an outage is a death, also if another one lives through it.
func TestOutage_inWhichAProcessDies(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := unhurried(time.Hour, new(atomic.Int32))
		first, cut := severable(s.journal)
		_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), 1)
		require.NoError(s, err)
		cut.Store(true) // for good
		time.Sleep(saga.DefaultLease)
		s.open(d)
		time.Sleep(time.Minute)
		require.Equal(s, 1, s.read("k").RecoveryAttempts)
		require.EqualValues(s, 2, s.read("k").Fence)
	})
}
