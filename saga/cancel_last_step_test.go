package saga_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// The last step is no pivot and is running. Cancelled from anywhere, with or without a time for the whole saga, the saga
// is compensated, and never completed.
func TestCancel_duringTheLastStep(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{0, time.Minute} {
		for _, from := range []string{"its own engine", "an operator", "another engine"} {
			t.Run(fmt.Sprint(from, ", Timeout ", timeout), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(s *stage) {
					refunded := 0
					one := saga.MustDefine("one", 1, func(b *saga.Builder[string, nothing]) {
						if timeout > 0 {
							b.Timeout(timeout)
						}
						saga.StepFunc(b, "card.charge", b.Input(), func(context.Context, saga.Call[string]) (string, error) {
							time.Sleep(10 * time.Second)
							return "paid", nil
						}).UndoFunc("card.refund", func(context.Context, saga.UndoCall[string, string]) error { refunded++; return nil })
					})
					own := s.open(one)
					r, err := one.Start(s.Context(), own, key(s.T, "k"), "x")
					require.NoError(s, err)
					time.Sleep(3 * time.Second)
					switch from {
					case "its own engine":
						_, err = own.Cancel(s.Context(), r.ID, someone)
					case "an operator":
						var operator *saga.Operator
						operator, err = saga.NewOperator(s.journal, one)
						require.NoError(s, err)
						_, err = operator.Cancel(s.Context(), r.ID, someone)
					default:
						_, err = s.open(one).Cancel(s.Context(), r.ID, someone)
					}
					require.NoError(s, err)
					s.until("k", journal.Compensated)
					require.Equal(s, 1, refunded)
					_, err = one.Run(s.Context(), own, key(s.T, "k"), "x")
					require.ErrorIs(s, err, saga.ErrCompensated)
				})
			})
		}
	}
}
