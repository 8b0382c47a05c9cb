package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

func run[Out any](d *saga.Definition[order, Out]) func(s *stage) error {
	return func(s *stage) error {
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		return err
	}
}

// An Error does not deny a call that was made, and tells which verb ends a saga that is stuck.
func TestError_tells(t *testing.T) {
	t.Parallel()
	hurried := saga.MustDefine("hurried", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(undoBudget)
		saga.StepFunc(b, "a.do", b.Input(), func(ctx context.Context, _ saga.Call[order]) (nothing, error) {
			<-ctx.Done()
			return nothing{}, ctx.Err()
		}).UndoFunc("a.undo", undo).Timeout(time.Second)
	})
	refused := sagatest.Reject(402)
	for _, tt := range []struct {
		name   string
		run    func(s *stage) error
		script func(*sagatest.Services)
		want   []string // parts of the text
	}{
		{"refused", run(checkout), func(s *sagatest.Services) { s.Script("payment.charge", refused) }, []string{"compensated, payment.charge failed: Rejected"}},
		{"out of time", run(hurried), func(*sagatest.Services) {}, []string{"a.do failed: Unknown"}},
		{"undo refused", run(checkout), func(s *sagatest.Services) {
			s.Script("payment.charge", refused)
			s.ScriptUndo("inventory.reserve", sagatest.Reject(409))
		}, []string{
			"stuck on inventory.reserve's undo: Rejected (the callee's stored answer: status 409 Conflict)",
			"undo it by hand, then ForceUndone; a Retry gets a stored refusal again",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				tt.script(s.services)
				err := tt.run(s)
				for _, part := range tt.want {
					require.ErrorContains(s, err, part)
				}
				var failed *saga.Error
				var call *retry.Error
				require.ErrorAs(s, err, &failed)
				require.ErrorAs(s, err, &call)
				require.Positive(s, call.Attempts, err)
				require.Equal(s, failed.Status == journal.Stuck, failed.Resumable())
			})
		})
	}
}
