package saga_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// The journal's clock goes back an hour while a saga waits: for its next attempt, in its owner's memory
// or asleep, or for the end of its dead owner's lease. No wait lasts an hour longer.
func TestClock_goesBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		wait time.Duration // before the second attempt
		dies bool
	}{
		{"a wait in memory", 5 * time.Second, false},
		{"a wait in memory, of an owner that dies", 5 * time.Second, true},
		{"a saga that sleeps", 2 * time.Minute, false},
		{"a saga that sleeps, of an owner that dies", 2 * time.Minute, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var ahead atomic.Int64
				ahead.Store(int64(2 * time.Hour))
				now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				j := memjournal.NewWith(memjournal.Config{Now: now})
				tries := make(chan time.Time, 10)
				failed := false
				d := saga.MustDefine("ring", 1, func(b *saga.Builder[int, nothing]) {
					saga.StepFunc(b, "bell.ring", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
						if tries <- time.Now(); !failed {
							failed = true
							return nothing{}, errors.New("no bell")
						}
						return nothing{}, nil
					}).ReadOnly().Retry(saga.RetryPolicy{Backoff: retry.Backoff{Base: 2 * tt.wait, Cap: 2 * tt.wait}}) // half of it, by Rand
				})
				reach, dead := tap(j), atomic.Bool{}
				reach.before = func(string, int) error {
					if dead.Load() {
						return errNoNetwork
					}
					return nil
				}
				_, err := d.Start(s.Context(), s.openOn(reach, d), key(s.T, "k"), 1)
				require.NoError(s, err)
				time.Sleep(2 * time.Second)
				dead.Store(tt.dies)
				ahead.Store(int64(time.Hour))
				s.openOn(j, d)
				first := <-tries
				took := (<-tries).Sub(first)
				require.GreaterOrEqual(s, took, tt.wait)
				require.LessOrEqual(s, took, 2*(tt.wait+saga.DefaultLease))
			})
		})
	}
}
