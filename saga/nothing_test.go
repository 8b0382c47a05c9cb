package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// The entry of an undo says whether it undid an effect or found nothing to undo.
func TestUndoFunc_nothingToUndo(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy")
	tests := []struct {
		name    string
		says    []error // one try after the other
		nothing bool
	}{
		{"done", []error{nil}, false},
		{"nothing to undo", []error{saga.ErrNothingToUndo}, true},
		{"nothing to undo, wrapped", []error{fmt.Errorf("no booking: %w", saga.ErrNothingToUndo)}, true},
		{"at the second try", []error{busy, saga.ErrNothingToUndo}, true},
		{"done at the second try", []error{busy, nil}, false},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			tries := 0
			d := saga.MustDefine("undone", 1, func(b *saga.Builder[order, nothing]) {
				b.UndoBudget(undoBudget)
				done := step(b, "a.do").UndoFunc("a.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
					tries++
					return tt.says[tries-1]
				})
				saga.StepFunc(b, "b.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
					return nothing{}, saga.Rejected(errors.New("no"))
				}).After(done)
			})
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated, tt.name)
			var failed *saga.Error
			require.ErrorAs(s, err, &failed)
			require.Equal(s, []string{"a.do"}, failed.Undone)
			require.Len(s, tt.says, tries, tt.name)
			for _, entry := range s.read("k").Entries {
				require.Equal(s, tt.nothing && entry.Undo, entry.Nothing, tt.name)
				require.False(s, entry.Undo && entry.Outcome != retry.Completed, tt.name)
			}
			last := s.events.tries[len(s.events.tries)-1]
			require.NoError(s, last.Err, "%s: it is no failure", tt.name)
		})
	}
}

// Only an undo can say it: from a step it is an error like any other.
func TestStepFunc_nothingToUndo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("undone", 1, func(b *saga.Builder[order, nothing]) {
			b.Timeout(time.Second)
			b.UndoBudget(time.Minute)
			saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				return nothing{}, saga.ErrNothingToUndo
			}).UndoFunc("a.undo", undo)
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		for _, entry := range s.read("k").Entries {
			require.False(s, entry.Nothing)
		}
	})
}

// A callee's answer to an undo says as much, and so does its replay.
func TestUndo_nothingToUndo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		charge  sagatest.Fault // always
		undo    []sagatest.Fault
		nothing bool
	}{
		{"it had arrived", sagatest.LoseAnswer(), nil, false},
		{"nobody knows", sagatest.Forget(true), nil, false},
		{"it never arrived", sagatest.LoseRequest(), nil, true},
		{"it never arrived, and the undo's answer is lost", sagatest.LoseRequest(), []sagatest.Fault{sagatest.LoseAnswer()}, true},
	} {
		inBubble(t, func(s *stage) {
			s.services.Script("payment.charge", sagatest.Always(tt.charge))
			s.services.ScriptUndo("payment.charge", tt.undo...)
			_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated, tt.name)
			found := map[string]bool{}
			for _, entry := range s.read("k").Entries {
				if entry.Undo {
					found[entry.Step] = entry.Nothing
				}
			}
			require.Equal(s, map[string]bool{"inventory.reserve": false, "payment.charge": tt.nothing}, found, tt.name)
		})
	}
}
