package saga_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// Each verb is in the audit log as what it was: what was done, to which step, by whom,
// why, and where that took the saga.
func TestAudit(t *testing.T) {
	t.Parallel()
	by := saga.Audit{Actor: "bob", Reason: "ticket 7"}
	tests := []struct {
		want     saga.Audit
		from, to saga.Status
		prepare  func(s *stage, e *saga.Engine)
		do       func(s *stage, e *saga.Engine) error
	}{
		{
			saga.Audit{Verb: "retry"},
			saga.Stuck, saga.Compensating, stuckUndo,
			func(s *stage, e *saga.Engine) error { _, err := e.Retry(s.Context(), s.id("k"), by); return err },
		},
		{
			saga.Audit{Verb: "force-ok", Step: "mail.receipt"},
			saga.Stuck, saga.Running, stuckMail,
			func(s *stage, e *saga.Engine) error {
				_, err := e.ForceOK(s.Context(), s.id("k"), "mail.receipt", nothing{}, by)
				return err
			},
		},
		{
			saga.Audit{Verb: "force-rejected", Step: "shipping.book"},
			saga.Stuck, saga.Running, stuckPivot,
			func(s *stage, e *saga.Engine) error {
				_, err := e.ForceRejected(s.Context(), s.id("k"), "shipping.book", by)
				return err
			},
		},
		{
			saga.Audit{Verb: "force-undone", Step: "payment.charge"},
			saga.Stuck, saga.Compensating, stuckUndo,
			func(s *stage, e *saga.Engine) error {
				_, err := e.ForceUndone(s.Context(), s.id("k"), "payment.charge", by)
				return err
			},
		},
		{
			saga.Audit{Verb: "cancel"},
			saga.Running, saga.Running, slowHold,
			func(s *stage, e *saga.Engine) error { _, err := e.Cancel(s.Context(), s.id("k"), by); return err },
		},
		{
			saga.Audit{Verb: "abandon"},
			saga.Running, saga.Abandoned, slowHold,
			func(s *stage, e *saga.Engine) error { _, err := e.Abandon(s.Context(), s.id("k"), by); return err },
		},
	}
	for _, tt := range tests {
		t.Run(string(tt.want.Verb), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				e := s.open(checkout)
				tt.prepare(s, e)
				fence, begun := s.read("k").Fence, time.Now()
				require.NoError(s, tt.do(s, e))
				log, err := e.AuditLog(s.Context(), saga.ID{}, 10)
				require.NoError(s, err)
				require.Len(s, log, 1)
				require.True(s, log[0].At.Equal(begun), "at %v, want %v", log[0].At, begun)
				log[0].At = time.Time{}
				tt.want.Actor, tt.want.Reason = by.Actor, by.Reason
				require.Equal(s, saga.AuditEntry{ID: s.id("k"), Audit: tt.want, From: tt.from, To: tt.to, Fence: fence + 1}, log[0])
			})
		})
	}
}

// stuckMail plays a saga whose last step is refused, until it is stuck.
func stuckMail(s *stage, e *saga.Engine) {
	s.Helper()
	s.services.Script("mail.receipt", sagatest.Reject(422))
	_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
	require.ErrorIs(s, err, saga.ErrStuck)
}

// slowHold starts a saga and leaves it in the middle of its first step.
func slowHold(s *stage, e *saga.Engine) {
	s.Helper()
	s.services.Script("inventory.reserve", sagatest.Slow(10*time.Second))
	_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
	require.NoError(s, err)
	time.Sleep(time.Second)
}
