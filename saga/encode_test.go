package saga_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// An input that JSON cannot encode is refused before any write or call.
func TestRun_inputNotEncodable(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("measure", 1, func(b *saga.Builder[float64, nothing]) {
			saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[float64]) (nothing, error) {
				s.Error("it was called")
				return nothing{}, nil
			}).ReadOnly()
		})
		e := s.open(d)
		_, err := d.Run(s.Context(), e, key(s.T, "k"), math.NaN())
		require.ErrorIs(s, err, saga.ErrEncode)
		_, err = d.Start(s.Context(), e, key(s.T, "k"), math.Inf(1))
		require.ErrorIs(s, err, saga.ErrEncode)
		_, err = d.Request(key(s.T, "k"), math.NaN())
		require.ErrorIs(s, err, saga.ErrEncode)
		stats, err := e.Stats(s.Context())
		require.NoError(s, err)
		require.Empty(s, stats.ByStatus, "something was stored")
	})
}

// A step whose result JSON cannot encode took effect even so. It is not run again. If a later
// step needs the result, the step is undone, without an output.
func TestStepFunc_resultNotEncodable(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			done, undone := 0, 0
			d := saga.MustDefine("measure", 1, func(b *saga.Builder[int, nothing]) {
				measured := saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[int]) (float64, error) {
					done++
					return math.NaN(), nil
				}).UndoFunc("a.undo", func(_ context.Context, u saga.UndoCall[int, float64]) error {
					undone++
					require.Nil(s, u.Output)
					return nil
				})
				next := saga.Map(b.Input(), func(int) float64 { return 0 })
				if needed {
					next = measured.Output()
				}
				saga.StepFunc(b, "b.do", next, func(context.Context, saga.Call[float64]) (nothing, error) {
					return nothing{}, nil
				}).After(measured)
			})
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
			entry := s.read("k").Entries[0]
			require.Equal(s, retry.Completed, entry.Outcome)
			require.Nil(s, entry.Result)
			require.Equal(s, 1, done)
			if !needed {
				require.NoError(s, err)
				require.Zero(s, undone)
				return
			}
			require.ErrorIs(s, err, saga.ErrCompensated)
			require.ErrorIs(s, err, retry.ErrCompleted)
			require.Equal(s, 1, undone)
		})
	}
}

// A success that nobody can read is an effect: the call is not made again, and is undone
// where a step behind it needs the answer.
func TestRun_answerNotReadable(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("payment.charge", "<html>")
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorIs(s, err, retry.ErrCompleted)
		s.wantEffects("payment.charge", 1, 1)
		s.wantEffects("inventory.reserve", 1, 1)
		s.wantEffects("shipping.book", 0, 0)
		calls := 0
		for _, d := range s.services.Deliveries() {
			if d.Step != "payment.charge" {
				continue
			}
			if calls++; d.Undo {
				require.JSONEq(s, `{"input":{"sku":"a-1","cents":100}}`, string(d.Body))
			}
		}
		require.Equal(s, 2, calls, "the call and its undo")
	})
}

// So is one that comes with a lost answer before it.
func TestRun_answerNotReadableAfterALostOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("mail.receipt", "<html>")
		s.services.Script("mail.receipt", sagatest.LoseAnswer())
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.NoError(s, err, "nobody needs what it returns")
		s.wantEffects("mail.receipt", 1, 0)
	})
}
