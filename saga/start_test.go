package saga_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/sdk"
)

// Until its first write a saga looks to every start of its own process as if that
// had begun it.
func TestStart_besideAnother(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(time.Second))
		s.services.Script("payment.charge", sagatest.Slow(time.Second))
		e := s.open(checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), order{SKU: "another"})
		require.ErrorIs(s, err, saga.ErrKeyReused)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		require.Len(s, s.events.moves, 2, "started and completed, once each")
	})
}

// A ctx that ended for a reason of the caller's is over all the same.
func TestRun_ctxIsDone(t *testing.T) {
	t.Parallel()
	why := errors.New("the client hung up")
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		done, cancel := context.WithCancelCause(s.Context())
		cancel(why)
		late, stop := context.WithDeadlineCause(s.Context(), time.Now(), why)
		defer stop()
		plain, cancelPlain := context.WithCancel(s.Context())
		cancelPlain()
		for _, tt := range []struct {
			ctx  context.Context
			want []error
		}{{done, []error{context.Canceled, why}}, {late, []error{context.DeadlineExceeded, why}}, {plain, []error{context.Canceled}}} {
			_, err := checkout.Run(tt.ctx, e, key(s.T, "k"), basket)
			_, errStart := checkout.Start(tt.ctx, e, key(s.T, "k"), basket)
			for _, want := range tt.want {
				require.ErrorIs(s, err, want)
				require.ErrorIs(s, errStart, want)
			}
			require.NotErrorIs(s, err, saga.ErrDetached)
		}
		_, err := s.journal.Read(s.Context(), s.id("k"))
		require.ErrorIs(s, err, saga.ErrNotFound)
	})
}

// A caller that stops waiting gets the ctx's error and its cause.
func TestRun_ctxEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("the client hung up")
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(10*time.Second))
		e := s.open(checkout)
		ctx, cancel := context.WithCancelCause(s.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := checkout.Run(ctx, e, key(s.T, "k"), basket)
		for _, want := range []error{saga.ErrDetached, context.Canceled, why} {
			require.ErrorIs(s, err, want)
		}
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
	})
}

// If the repetition of a start fails, the first start may still have arrived.
func TestStart_unknownThenRefused(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection refused")
	for _, arrived := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			j := tap(s.journal)
			starts := 0
			j.before = func(m string, _ int) error {
				if m != "Start" {
					return nil
				}
				if starts++; starts == 2 {
					return gone
				}
				if !arrived {
					return saga.ErrFateUnknown
				}
				return nil
			}
			j.after = func(m string, n int) error {
				if m == "Start" && starts == 1 {
					return saga.ErrFateUnknown
				}
				return nil
			}
			e := s.openOn(j, checkout)
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrFateUnknown)
			require.ErrorIs(s, err, gone)
			require.NotErrorIs(s, err, saga.ErrNotStarted)
			if arrived {
				_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
			}
		})
	}
}

// A caller that leaves while the journal takes its time does not know what comes of it;
// the saga is driven all the same, without being looked for.
func TestStart_callerLeaves(t *testing.T) {
	t.Parallel()
	why := errors.New("the client hung up")
	for _, run := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			j := tap(s.journal)
			j.after = func(m string, _ int) error {
				if m == "Start" {
					time.Sleep(10 * time.Second)
				}
				return nil
			}
			e := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Poll: time.Hour})
			ctx, cancel := context.WithCancelCause(s.Context())
			time.AfterFunc(time.Second, func() { cancel(why) })
			var err error
			if run {
				_, err = checkout.Run(ctx, e, key(s.T, "k"), basket)
			} else {
				_, err = checkout.Start(ctx, e, key(s.T, "k"), basket)
			}
			for _, want := range []error{saga.ErrFateUnknown, context.Canceled, why} {
				require.ErrorIs(s, err, want)
			}
			require.NotErrorIs(s, err, saga.ErrNotStarted)
			time.Sleep(time.Minute)
			require.Equal(s, journal.Completed, s.read("k").Status)
		})
	}
}

// A journal that panics, or ends its goroutine, takes neither the process with it nor
// leaves the caller waiting.
func TestStart_journalPanics(t *testing.T) {
	t.Parallel()
	for _, end := range []func(){func() { panic("tracer") }, runtime.Goexit} {
		inBubble(t, func(s *stage) {
			j := tap(s.journal)
			j.before = func(m string, _ int) error {
				if m == "Start" {
					end()
				}
				return nil
			}
			e := s.openOn(j, checkout)
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrFateUnknown)
			var panicked *sdk.PanicError
			require.ErrorAs(s, err, &panicked)
		})
	}
}

// The journal fails while a saga is running. A caller that waits for the saga, or asks for it
// again, is told that it goes on, while this process knows this. After that the outcome is
// unknown, and no caller is told that the saga was not started.
func TestRun_journalGoesAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j, cut := severable(s.journal)
		s.services.Script("inventory.reserve", sagatest.Slow(2*time.Second))
		e := s.openOn(j, checkout)
		elsewhere := s.openOn(j, checkout)
		run := func(in order) <-chan error {
			ran := make(chan error, 1)
			go func() {
				_, err := checkout.Run(s.Context(), e, key(s.T, "k"), in)
				ran <- err
			}()
			return ran
		}
		waiting := run(basket)
		time.Sleep(time.Second)
		cut.Store(true)
		time.Sleep(2 * time.Second)
		repeated := run(basket)
		require.ErrorIs(s, <-run(order{SKU: "another"}), saga.ErrKeyReused)
		r, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err, "it is there")
		require.Equal(s, s.id("k"), r.ID)
		_, err = checkout.Run(s.Context(), elsewhere, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrNotStarted)
		require.ErrorIs(s, err, errNoNetwork)
		for _, ran := range []<-chan error{waiting, repeated} {
			err := <-ran
			require.ErrorIs(s, err, saga.ErrDetached)
			require.NotErrorIs(s, err, saga.ErrNotStarted)
		}

		time.Sleep(saga.DefaultLease)
		err = <-run(basket)
		for _, want := range []error{saga.ErrNotStarted, journal.ErrLeaseLost, errNoNetwork} {
			require.ErrorIs(s, err, want)
		}
		require.NotErrorIs(s, err, saga.ErrDetached)
		cut.Store(false)
		require.NoError(s, <-run(basket))
		for _, step := range checkout.Steps() {
			s.wantEffects(step.Name, 1, 0)
		}
	})
}
