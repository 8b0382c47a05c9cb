package saga_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// An undo was first sent when the saga failed, whenever its call was.
func TestUndo_firstSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.Delay(10*time.Second, sagatest.Reject(402)))
		s.services.ScriptUndo("inventory.reserve", sagatest.LoseRequest(), sagatest.Unavailable())
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		r := s.read("k")
		require.Equal(s, 10*time.Second, r.FailedAt.Sub(r.CreatedAt))
		undos := 0
		for _, d := range s.services.Deliveries() {
			want := r.CreatedAt
			if d.Undo {
				want = r.FailedAt
				undos++
			}
			first, _, err := wire.ParseFirstSent(d.Header.Values(wire.HeaderFirstSent))
			require.NoError(s, err)
			require.True(s, first.Equal(want), "%s, undo %v, first sent %v, want %v", d.Step, d.Undo, first, want)
		}
		require.Equal(s, 3, undos)
	})
}

// An owner dies before, in or after an undo, and no entry of the undo is written. A gateway's
// answer to the next owner proves nothing: the undo may have happened.
func TestTakeOver_resumesUndos(t *testing.T) {
	t.Parallel()
	for _, sent := range []sagatest.Fault{sagatest.Pass(), sagatest.LoseRequest(), sagatest.LoseAnswer()} {
		inBubble(t, func(s *stage) {
			s.services.Script("payment.charge", sagatest.Reject(402))
			s.services.ScriptUndo("inventory.reserve", sent, sagatest.Gateway(401), sagatest.Gateway(403))
			first := dead(s.journal, func(method string, _ int) bool {
				isUndo := func(d sagatest.Delivery) bool { return d.Undo }
				return method == "Append" && slices.ContainsFunc(s.services.Deliveries(), isUndo)
			})
			e := s.openOn(first, checkout)
			_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			_, err = checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated)
			s.wantEffects("inventory.reserve", 1, 1)
			require.EqualValues(s, 2, s.read("k").Fence)
		})
	}
}

// No more undos run at once than calls may.
func TestMaxParallel_ofUndos(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var running, most atomic.Int32
		d := saga.MustDefine("wide", 1, func(b *saga.Builder[order1, nothing]) {
			b.MaxParallel(2)
			var all []saga.AnyStep
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				all = append(all, saga.StepFunc(b, name+".do", b.Input(), func(context.Context, saga.Call[order1]) (nothing, error) {
					return nothing{}, nil
				}).UndoFunc(name+".undo", func(context.Context, saga.UndoCall[order1, nothing]) error {
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Second)
					running.Add(-1)
					return nil
				}))
			}
			saga.StepFunc(b, "z.fail", b.Input(), func(context.Context, saga.Call[order1]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("no"))
			}).After(all...)
		})
		begun := time.Now()
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), "in")
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.Equal(s, 3*time.Second, time.Since(begun))
		require.EqualValues(s, 2, most.Load())
	})
}
