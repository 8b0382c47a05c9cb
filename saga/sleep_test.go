package saga_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

var mailOnly = saga.MustDefine("mail-only", 1, func(b *saga.Builder[parcel, nothing]) {
	saga.Step(b, notify, b.Input()).Retriable()
})

// down is a step whose service is down: each try fails at once.
var down = saga.MustDefine("down", 1, func(b *saga.Builder[int, nothing]) {
	saga.StepFunc(b, "a.down", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
		return nothing{}, errors.New("connection refused")
	}).Irreversible()
})

// Ten thousand sagas whose calls fail keep no saga of another definition waiting: neither
// while they wait for less than a lease, and hold places, nor when they sleep.
func TestSleep_keepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 10_000} {
		inBubble(t, func(s *stage) {
			for i := range n {
				enqueue(s, down, fmt.Sprint("w-", i), i)
			}
			s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{down, mailOnly}, MaxActive: 10 + n/10})
			for i, after := range []time.Duration{100 * time.Millisecond, 5 * time.Second, 20 * time.Second} {
				time.Sleep(after)
				name := fmt.Sprint("m-", i)
				enqueue(s, mailOnly, name, parcel{"t"})
				enqueued := time.Now()
				for s.read(name).Status == journal.Running {
					time.Sleep(10 * time.Millisecond)
				}
				require.Equal(s, journal.Completed, s.read(name).Status)
				require.Less(s, time.Since(enqueued), time.Second, "%d sagas kept it waiting, %v after the last", n, after)
			}
			st, err := s.journal.Stats(s.Context())
			require.NoError(s, err)
			require.Positive(s, st.Asleep)
		})
	}
}

// A saga that sleeps has no owner, and its entries are complete. The engine that claims it
// continues as the last owner would have. It does not take an unsent call for sent.
func TestSleep_isTrusted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		err     error
		resumed bool
	}{
		{"nothing was sent", saga.NotSent(errors.New("busy")), false},
		{"something may have been", errors.New("no answer"), true},
	} {
		inBubble(t, func(s *stage) {
			resumed := make(chan bool, 100) // of each try
			d := saga.MustDefine("sleeper", 1, func(b *saga.Builder[int, nothing]) {
				saga.StepFunc(b, "a.do", b.Input(), func(_ context.Context, c saga.Call[int]) (nothing, error) {
					resumed <- c.Resumed
					return nothing{}, tt.err
				}).Irreversible()
			})
			e := s.open(d)
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			var r journal.Record
			for r = s.read("k"); !r.Clean; r = s.read("k") {
				time.Sleep(time.Second)
			}
			require.True(s, r.Engine.IsZero())
			require.Len(s, r.Entries, 1)
			require.Equal(s, len(resumed), r.Entries[0].Attempts)
			require.NoError(s, e.Close(s.Context()))
			tries := len(resumed)
			for range tries {
				<-resumed
			}
			s.open(d)
			time.Sleep(r.WakeAt.Sub(r.Now) - 5*time.Second)
			require.Empty(s, resumed, "it was woken too early")
			time.Sleep(10 * time.Second)
			require.Len(s, resumed, 1)
			require.Equal(s, tt.resumed, <-resumed, tt.name)
			require.Equal(s, tries+1, s.read("k").Entries[0].Attempts)
			require.Zero(s, s.events.count(saga.EventTookOver), "nobody was taken over from")
			require.Zero(s, s.read("k").RecoveryAttempts)
		})
	}
}

// asleep waits until the saga sleeps.
func (s *stage) asleep(text string) journal.Record {
	s.Helper()
	for range 10_000 {
		if r := s.read(text); r.Clean && r.Engine.IsZero() {
			return r
		}
		time.Sleep(time.Second)
	}
	s.Fatalf("saga does not sleep: %v", s.read(text))
	return journal.Record{}
}

// A call in doubt when an owner gives a saga up is in doubt for later owners as well, although the
// attempts of that owner were not sent.
func TestSleep_inDoubt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var busy atomic.Bool
		second := make(chan bool, 10) // whether the second step was resumed
		d := saga.MustDefine("doubt", 1, func(b *saga.Builder[int, nothing]) {
			one := saga.StepFunc(b, "a.one", b.Input(), func(context.Context, saga.Call[int]) (int, error) {
				return 1, nil
			}).UndoFunc("a.undo-one", func(context.Context, saga.UndoCall[int, int]) error { return nil })
			saga.StepFunc(b, "a.two", one.Output(), func(_ context.Context, c saga.Call[int]) (nothing, error) {
				if busy.Load() {
					return nothing{}, saga.NotSent(errors.New("busy"))
				}
				second <- c.Resumed
				return nothing{}, nil
			}).UndoFunc("a.undo-two", func(context.Context, saga.UndoCall[int, nothing]) error { return nil })
		})
		first := dead(s.journal, func(method string, n int) bool { return method == "Append" && n == 2 })
		_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), 1)
		require.NoError(s, err)
		require.False(s, <-second)
		busy.Store(true)
		e := s.open(d)
		r := s.asleep("k")
		require.Equal(s, retry.Unknown, entryOf(r, "a.two").Outcome, "the dead one may have sent it")
		require.True(s, entryOf(r, "a.two").Pending)
		require.Equal(s, retry.Completed, entryOf(r, "a.one").Outcome)
		require.Empty(s, entryOf(r, "a.undo-one").Step, "no undo was sent")
		require.NoError(s, e.Close(s.Context()))
		busy.Store(false)
		s.open(d)
		s.until("k", journal.Completed)
		require.True(s, <-second, "it was sent by the first owner")
		require.Empty(s, second)
	})
}

func entryOf(r journal.Record, step string) journal.Entry {
	for _, e := range r.Entries {
		if e.Step == step && !e.Undo {
			return e
		}
	}
	return journal.Entry{}
}

// Cancel wakes a saga that sleeps. A call that was never sent is not undone. A deadline that
// passes while the saga sleeps fails it in time.
func TestSleep_cancelled(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute
	for _, cancel := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			var undone atomic.Int32
			d := saga.MustDefine("sleeper", 1, func(b *saga.Builder[int, nothing]) {
				b.Timeout(timeout)
				saga.StepFunc(b, "a.done", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) { return nothing{}, nil }).
					UndoFunc("a.undo", func(context.Context, saga.UndoCall[int, nothing]) error { undone.Add(1); return nil })
				saga.StepFunc(b, "a.busy", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
					return nothing{}, saga.NotSent(errors.New("busy"))
				}).UndoFunc("a.undo-busy", func(context.Context, saga.UndoCall[int, nothing]) error {
					s.Error("what was never sent was undone")
					return nil
				})
			})
			e := s.open(d)
			_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
			require.NoError(s, err)
			r := s.asleep("k")
			woken := time.Now()
			if cancel {
				r, err = e.Cancel(s.Context(), r.ID, someone)
				require.NoError(s, err)
			} else {
				woken = woken.Add(r.FirstClaimedAt.Add(timeout).Sub(r.Now))
			}
			for s.read("k").Status != journal.Compensated {
				time.Sleep(100 * time.Millisecond)
			}
			require.Less(s, time.Since(woken), time.Second)
			require.EqualValues(s, 1, undone.Load())
			require.Zero(s, s.read("k").RecoveryAttempts)
		})
	}
}

// A caller that waits for a sleeping saga is told its outcome, even if another process ends the
// saga.
func TestSleep_whoWaits(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			var up atomic.Bool
			d := saga.MustDefine("sleeper", 1, func(b *saga.Builder[int, int]) {
				saga.Return(b, saga.StepFunc(b, "a.do", b.Input(), func(_ context.Context, c saga.Call[int]) (int, error) {
					if !up.Load() {
						return 0, errors.New("down")
					}
					return 10 * c.Input, nil
				}).Irreversible().Output())
			})
			var claims atomic.Bool // by the process of who waits
			j := tap(s.journal)
			j.before = func(method string, _ int) error {
				if method == "Claim" && elsewhere && !claims.Load() {
					return errNoNetwork
				}
				return nil
			}
			e := s.openOn(j, d)
			var got int
			var err error
			ran := make(chan struct{})
			go func() {
				defer close(ran)
				got, err = d.Run(s.Context(), e, key(s.T, "k"), 7)
			}()
			time.Sleep(time.Second)
			r := s.asleep("k")
			reads := j.count("Read")
			time.Sleep(r.WakeAt.Sub(r.Now) - time.Second)
			require.LessOrEqual(s, j.count("Read")-reads, 1+int(r.WakeAt.Sub(r.Now)/(10*saga.DefaultPoll)), "who waits for a saga that sleeps reads rarely")
			up.Store(true)
			if elsewhere {
				s.open(d)
			}
			s.until("k", journal.Completed)
			ended := time.Now()
			<-ran
			require.NoError(s, err)
			require.Equal(s, 70, got)
			require.LessOrEqual(s, time.Since(ended), 10*saga.DefaultPoll)
		})
	}
}
