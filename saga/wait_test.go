package saga_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A caller that waits for a saga of another process reads the journal. It accepts two failed
// reads in succession. The third one detaches it.
func TestRun_journalAwayWhileItWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fails func(n int) bool
		want  error
	}{
		{"now and then", func(n int) bool { return n%3 != 0 }, nil},
		{"for good", func(n int) bool { return n > 2 }, saga.ErrDetached},
	} {
		inBubble(t, func(s *stage) {
			s.services.Script("inventory.reserve", sagatest.Slow(20*time.Second))
			_, err := checkout.Start(s.Context(), s.open(checkout), key(s.T, "k"), basket)
			require.NoError(s, err)
			j := tap(s.journal)
			j.before = func(method string, n int) error {
				if method == "Read" && tt.fails(n) {
					return errNoNetwork
				}
				return nil
			}
			begun := time.Now()
			_, err = checkout.Run(s.Context(), s.openOn(j, checkout), key(s.T, "k"), basket)
			if tt.want == nil {
				require.NoError(s, err, tt.name)
				return
			}
			require.ErrorIs(s, err, tt.want, tt.name)
			require.ErrorIs(s, err, errNoNetwork, "why")
			require.Equal(s, 5, j.count("Read"))
			require.Less(s, time.Since(begun), 5*time.Second)
			s.until("k", journal.Completed)
		})
	}
}

// Callers of one process that wait for sagas of another read the journal together, whatever their number
// and whenever they came. Each gets its saga's result, and a journal that does not answer detaches all.
func TestRun_waitersReadTogether(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			const sagas, callersOfEach = 250, 2
			held := make(chan struct{})
			end := sync.OnceFunc(func() { close(held) })
			defer end()
			hold := saga.MustDefine("hold", 1, func(b *saga.Builder[int, int]) {
				step := saga.StepFunc(b, "room.hold", b.Input(), func(_ context.Context, c saga.Call[int]) (int, error) {
					<-held
					return 2 * c.Input, nil
				}).ReadOnly().AttemptTimeout(time.Hour)
				saga.Return(b, step.Output())
			})
			owner := s.open(hold)
			for n := range sagas {
				_, err := hold.Start(s.Context(), owner, key(s.T, fmt.Sprint(n)), n)
				require.NoError(s, err)
			}
			j := tap(s.journal)
			var gone atomic.Bool
			j.before = func(method string, _ int) error {
				if gone.Load() && (method == "Read" || method == "ReadOutlines") {
					return errNoNetwork
				}
				return nil
			}
			e := s.openOn(j, hold)
			var wg sync.WaitGroup
			for n := range sagas * callersOfEach {
				time.Sleep(time.Millisecond) // each comes at another time
				wg.Go(func() {
					got, err := hold.Run(s.Context(), e, key(s.T, fmt.Sprint(n%sagas)), n%sagas)
					if away {
						require.ErrorIs(s, err, saga.ErrDetached)
						require.ErrorIs(s, err, errNoNetwork)
						return
					}
					require.NoError(s, err)
					require.Equal(s, 2*(n%sagas), got)
				})
			}
			time.Sleep(2*saga.DefaultPoll + saga.DefaultPoll/3) // no read falls on a bound of the count
			before, polls := j.count("Read")+j.count("ReadOutlines"), 20
			time.Sleep(time.Duration(polls) * saga.DefaultPoll)
			require.Equal(s, polls, j.count("Read")+j.count("ReadOutlines")-before, "reads in as many polls")
			gone.Store(away)
			if away {
				wg.Wait()
			}
			end()
			wg.Wait()
		})
	}
}
