package saga_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

func refuse(context.Context, saga.Call[order]) (nothing, error) {
	return nothing{}, saga.Rejected(errors.New("no"))
}

// A step that needs no undo does not part the step before it from the one after it.
func TestCompensate_orderAcrossAStepWithoutUndo(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(r *saga.StepRef[order, nothing]){
		"ReadOnly":     func(r *saga.StepRef[order, nothing]) { r.ReadOnly() },
		"Irreversible": func(r *saga.StepRef[order, nothing]) { r.Irreversible() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var ended []string
				slow := func(name string) func(context.Context, saga.UndoCall[order, nothing]) error {
					return func(context.Context, saga.UndoCall[order, nothing]) error {
						if name == "a" {
							require.Equal(s, []string{"c"}, ended, "when the undo of a begins")
						}
						time.Sleep(time.Second)
						ended = append(ended, name)
						return nil
					}
				}
				d := saga.MustDefine("chain", 1, func(b *saga.Builder[order, nothing]) {
					a := step(b, "a.do").UndoFunc("a.undo", slow("a"))
					r := step(b, "r.do").After(a)
					mark(r)
					c := step(b, "c.do").UndoFunc("c.undo", slow("c")).After(r)
					saga.StepFunc(b, "z.fail", b.Input(), refuse).After(c)
				})
				_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Equal(s, []string{"c", "a"}, ended)
			})
		})
	}
}

// If a step's undo is refused, the steps before it are not undone, also across a step that only
// reads.
func TestCompensate_refusedUndoKeepsAllBeforeIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("chain", 1, func(b *saga.Builder[order, nothing]) {
			held := saga.Step(b, reserve, b.Input()).Undo(release)
			quoted := step(b, "price.quote").ReadOnly().After(held)
			paid := saga.Step(b, pay, b.Input()).Undo(refund).After(quoted)
			saga.StepFunc(b, "z.fail", b.Input(), refuse).After(paid)
		})
		s.services.ScriptUndo("payment.charge", sagatest.Reject(409))
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		s.wantEffects("inventory.reserve", 1, 0)
	})
}
