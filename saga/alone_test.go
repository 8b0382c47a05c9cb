package saga_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// The function of a step ends its goroutine, which may be that of the whole saga:
// the try has failed, and the saga goes on.
func TestStepFunc_endsItsGoroutine(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]string{{"a.alone"}, {"a.one", "a.beside"}} {
		inBubble(t, func(s *stage) {
			tries := make(chan bool, 10)
			d := saga.MustDefine("quits", 1, func(b *saga.Builder[int, nothing]) {
				for _, name := range steps {
					n := 0
					saga.StepFunc(b, name, b.Input(), func(_ context.Context, c saga.Call[int]) (nothing, error) {
						tries <- c.Resumed
						if n++; n == 1 {
							runtime.Goexit()
						}
						return nothing{}, nil
					}).Irreversible()
				}
			})
			e := s.open(d)
			time.Sleep(saga.DefaultLease) // the engine has looked for unowned sagas
			begun := time.Now()
			_, err := d.Run(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			require.Len(s, tries, 2*len(steps))
			require.Less(s, time.Since(begun), saga.DefaultLease, "nobody had to find it")
		})
	}
}

// A function that does not look at its ctx, and goes on when the lease is lost, keeps
// nobody from the result that another owner has got.
func TestRun_leavesAFunctionThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var tries atomic.Int64
		d := saga.MustDefine("deaf", 1, func(b *saga.Builder[int, int]) {
			saga.Return(b, saga.StepFunc(b, "a.deaf", b.Input(), func(context.Context, saga.Call[int]) (int, error) {
				n := tries.Add(1)
				if n == 1 {
					time.Sleep(30 * time.Minute)
				}
				return int(n), nil
			}).Irreversible().Output())
		})
		begun := time.Now()
		e := s.openOn(beatsOnce(s.journal), d)
		s.open(d)
		out, err := d.Run(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		require.Equal(s, 2, out)
		require.Less(s, time.Since(begun), time.Minute)
	})
}

// The saga's time is up while its only call is running. The failure is in the journal at that time,
// and not only at the end of the call.
func TestDeadline_duringTheOnlyCall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("short", 1, func(b *saga.Builder[int, nothing]) {
			b.Timeout(10 * time.Second)
			saga.StepFunc(b, "a.slow", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
				time.Sleep(20 * time.Second)
				return nothing{}, nil
			}).UndoFunc("a.back", func(context.Context, saga.UndoCall[int, nothing]) error { return nil })
		})
		_, err := d.Start(s.Context(), s.open(d), key(s.T, "k"), 1)
		require.NoError(s, err)
		time.Sleep(11 * time.Second)
		require.Equal(s, journal.Compensating, s.read("k").Status)
		require.Equal(s, journal.Compensated, s.until("k", journal.Compensated).Status)
	})
}
