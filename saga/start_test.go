package saga_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
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
		_, err := s.journal.Read(s.Context(), id(s.T, "k"))
		require.ErrorIs(s, err, saga.ErrNotFound)
	})
}

// Who stops waiting hears that it was the ctx, and why.
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

// The journal goes away while a saga is under way. Who waits for it, and who asks for
// it again, hear that it goes on, as long as this process knows; after that nobody can
// know, and nobody says that nothing was started.
func TestRun_journalGoesAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		gone := errors.New("no network")
		var cut atomic.Bool
		j := tap(s.journal)
		j.before = func(string, int) error {
			if cut.Load() {
				return gone
			}
			return nil
		}
		s.services.Script("inventory.reserve", sagatest.Slow(2*time.Second))
		e := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{checkout}})
		elsewhere := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{checkout}})
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
		require.Equal(s, id(s.T, "k"), r.ID)
		_, err = checkout.Run(s.Context(), elsewhere, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrNotStarted)
		require.ErrorIs(s, err, gone)
		for _, ran := range []<-chan error{waiting, repeated} {
			err := <-ran
			require.ErrorIs(s, err, saga.ErrDetached)
			require.NotErrorIs(s, err, saga.ErrNotStarted)
		}

		time.Sleep(saga.DefaultLease)
		err = <-run(basket)
		for _, want := range []error{saga.ErrNotStarted, saga.ErrLeaseLost, gone} {
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
