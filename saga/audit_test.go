package saga_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// Each verb is in the audit log with its name, its step, its actor, its reason, and the saga's
// new status.
func TestAudit(t *testing.T) {
	t.Parallel()
	by := journal.Audit{Actor: "bob", Reason: "ticket 7"}
	tests := []struct {
		want     journal.Audit
		from, to journal.Status
		prepare  func(s *stage, e *saga.Engine)
		do       func(s *stage, e *saga.Engine) error
	}{
		{
			journal.Audit{Verb: "retry"},
			journal.Stuck, journal.Compensating, stuckUndo,
			func(s *stage, e *saga.Engine) error { _, err := e.Retry(s.Context(), s.id("k"), by); return err },
		},
		{
			journal.Audit{Verb: "force-ok", Step: "mail.receipt"},
			journal.Stuck, journal.Running, stuckMail,
			func(s *stage, e *saga.Engine) error {
				_, err := e.ForceOK(s.Context(), s.id("k"), "mail.receipt", nothing{}, by)
				return err
			},
		},
		{
			journal.Audit{Verb: "force-rejected", Step: "shipping.book"},
			journal.Stuck, journal.Running, stuckPivot,
			func(s *stage, e *saga.Engine) error {
				_, err := e.ForceRejected(s.Context(), s.id("k"), "shipping.book", by)
				return err
			},
		},
		{
			journal.Audit{Verb: "force-undone", Step: "payment.charge"},
			journal.Stuck, journal.Compensating, stuckUndo,
			func(s *stage, e *saga.Engine) error {
				_, err := e.ForceUndone(s.Context(), s.id("k"), "payment.charge", by)
				return err
			},
		},
		{
			journal.Audit{Verb: "cancel"},
			journal.Running, journal.Running, slowHold,
			func(s *stage, e *saga.Engine) error { _, err := e.Cancel(s.Context(), s.id("k"), by); return err },
		},
		{
			journal.Audit{Verb: "abandon"},
			journal.Running, journal.Abandoned, slowHold,
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
				log, err := e.Reader().AuditPage(s.Context(), journal.AuditRequest{Limit: 10})
				require.NoError(s, err)
				require.Len(s, log, 1)
				require.True(s, log[0].At.Equal(begun), "at %v, want %v", log[0].At, begun)
				log[0].At = time.Time{}
				tt.want.Actor, tt.want.Reason = by.Actor, by.Reason
				require.Equal(s, journal.AuditEntry{Number: 1, ID: s.id("k"), Audit: tt.want, From: tt.from, To: tt.to, Fence: fence + 1}, log[0])
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
