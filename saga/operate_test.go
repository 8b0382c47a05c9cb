package saga_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// stuckUndo plays a saga whose refund is refused, until it is stuck.
func stuckUndo(s *stage, e *saga.Engine) {
	s.Helper()
	s.services.Script("shipping.book", sagatest.Reject(409))
	s.services.ScriptUndo("payment.charge", sagatest.Reject(422))
	_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
	var failed *saga.Error
	require.ErrorAs(s, err, &failed)
	require.ErrorIs(s, err, saga.ErrStuck)
	require.ErrorIs(s, err, retry.ErrRejected)
	require.Equal(s, "shipping.book", failed.FailedStep, "the first failure is lost")
	require.Equal(s, "payment.charge", failed.StuckOn.Step)
	require.True(s, failed.StuckOn.Undo)
	require.Equal(s, []string{"inventory.reserve"}, failed.Undone, "an independent branch waited")
	require.Equal(s, []string{"payment.charge"}, failed.Pending)
	require.ErrorContains(s, err, "stuck on payment.charge's undo")
	s.wantEffects("inventory.reserve", 1, 1)
	s.wantEffects("payment.charge", 1, 0)
}

// A saga that is enqueued, and cancelled before its first owner, ends without a call. So a card
// is not charged only to be refunded.
func TestCancel_beforeTheFirstOwner(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		busy := tap(s.journal)
		busy.before = func(method string, _ int) error {
			if method == "Claim" {
				return errors.New("it claims nothing")
			}
			return nil
		}
		e := s.openOn(busy, checkout)
		r, err := e.Cancel(s.Context(), enqueue(s, checkout, "k", basket), someone)
		require.NoError(s, err)
		require.Zero(s, r.Fence)

		s.open(checkout)
		r = s.until("k", journal.Compensated)
		require.Empty(s, s.services.Deliveries())
		require.Empty(s, r.Entries)
		require.EqualValues(s, 1, r.Fence)
		require.Equal(s, journal.ReasonCancel, r.Cause.Reason)
		require.Zero(s, s.events.count(saga.EventTookOver), "nobody had it")
		metrics := saga.NewMetrics()
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		for _, move := range s.events.moves {
			metrics.Observe(s.Context(), move)
		}
		require.Equal(s, saga.Counts{Started: 1, Failed: 1, Compensated: 1}, metrics.Snapshot().Sagas["checkout"])
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		s.services.Script("shipping.book", sagatest.Reject(409))
		s.services.ScriptUndo("payment.charge", sagatest.Always(sagatest.Unavailable()))
		begun := time.Now()
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.Equal(s, undoBudget, time.Since(begun).Truncate(time.Second))
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck, "what is stuck moves by itself")
		s.services.ScriptUndo("payment.charge")
		r, err := e.Retry(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		require.Equal(s, journal.Compensating, r.Status)
		_, err = e.Retry(s.Context(), s.id("k"), someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		s.wantEffects("payment.charge", 1, 1)
		log, err := e.Reader().AuditPage(s.Context(), journal.AuditRequest{ID: s.id("k"), Limit: 10})
		require.NoError(s, err)
		require.Len(s, log, 1)
		require.Equal(s, journal.Audit{Verb: journal.VerbRetry, Actor: "ann", Reason: "a test"}, log[0].Audit)
		require.Equal(s, journal.Stuck, log[0].From)
	})
}

func TestForceUndone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		stuckUndo(s, e)
		for _, step := range []string{"inventory.reserve", "shipping.book"} {
			_, err := e.ForceUndone(s.Context(), s.id("k"), step, someone)
			require.ErrorIs(s, err, saga.ErrConflict, step)
		}
		_, err := e.ForceUndone(s.Context(), s.id("k"), "no.such", someone)
		require.ErrorIs(s, err, saga.ErrNoStep)
		_, err = e.ForceUndone(s.Context(), s.id("k"), "payment.charge", someone)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		s.wantEffects("payment.charge", 1, 0)
		for _, entry := range s.read("k").Entries {
			require.Equal(s, entry.Step == "payment.charge" && entry.Undo, entry.Forced == "ann")
		}
	})
}

func TestForceOK(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		s.services.Script("mail.receipt", sagatest.Reject(422))
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		_, err = e.ForceOK(s.Context(), s.id("k"), "mail.receipt", "no struct", someone)
		require.ErrorIs(s, err, saga.ErrEncode)
		_, err = e.ForceOK(s.Context(), s.id("k"), "shipping.book", parcel{}, someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		_, err = e.ForceUndone(s.Context(), s.id("k"), "payment.charge", someone)
		require.ErrorIs(s, err, saga.ErrConflict, "it does not go back")
		_, err = e.ForceOK(s.Context(), s.id("k"), "mail.receipt", nothing{}, someone)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		s.services.Script("inventory.reserve", sagatest.Slow(10*time.Second))
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorIs(s, err, saga.ErrCancelled)
		s.wantEffects("inventory.reserve", 1, 1)
		s.wantEffects("payment.charge", 1, 1)
		s.wantEffects("shipping.book", 0, 0)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.ErrorIs(s, err, saga.ErrConflict)
	})
}

// A saga that is stuck on its pivot cannot be cancelled: the pivot may have taken effect. Who knows that it did not says
// so, and then the saga is compensated.
func TestCancel_ofWhatIsStuck(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		s.services.Script("shipping.book", sagatest.LoseRequest(), sagatest.Always(sagatest.Unavailable()))
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		_, err = e.Cancel(s.Context(), s.id("k"), someone)
		require.ErrorIs(s, err, saga.ErrConflict)
		_, err = e.ForceRejected(s.Context(), s.id("k"), "shipping.book", someone)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		s.wantEffects("inventory.reserve", 1, 1)
	})
}

func TestAbandon(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Keep: time.Hour})
		stuckUndo(s, e)
		_, err := e.Abandon(s.Context(), s.id("k"), someone)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrAbandoned)
		for _, verb := range []func(context.Context, journal.ID, journal.Audit) (journal.Record, error){e.Abandon, e.Retry, e.Cancel} {
			_, err = verb(s.Context(), s.id("k"), someone)
			require.ErrorIs(s, err, saga.ErrConflict)
		}
		time.Sleep(time.Hour)
		n, err := e.Sweep(s.Context(), 10)
		require.NoError(s, err)
		require.Equal(s, 1, n)
		_, err = e.Lookup(s.Context(), s.id("k"))
		require.ErrorIs(s, err, saga.ErrNotFound)
	})
}

func TestVerbs_badInput(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		verbs := map[string]func(id journal.ID, by journal.Audit) error{
			"Retry":    func(id journal.ID, by journal.Audit) error { _, err := e.Retry(s.Context(), id, by); return err },
			"RetryNow": func(id journal.ID, by journal.Audit) error { _, err := e.RetryNow(s.Context(), id, by); return err },
			"ForceOK": func(id journal.ID, by journal.Audit) error {
				_, err := e.ForceOK(s.Context(), id, "a.b", nil, by)
				return err
			},
			"ForceRejected": func(id journal.ID, by journal.Audit) error {
				_, err := e.ForceRejected(s.Context(), id, "a.b", by)
				return err
			},
			"ForceUndone": func(id journal.ID, by journal.Audit) error {
				_, err := e.ForceUndone(s.Context(), id, "a.b", by)
				return err
			},
			"Cancel":  func(id journal.ID, by journal.Audit) error { _, err := e.Cancel(s.Context(), id, by); return err },
			"Abandon": func(id journal.ID, by journal.Audit) error { _, err := e.Abandon(s.Context(), id, by); return err },
		}
		for name, verb := range verbs {
			for _, by := range []journal.Audit{
				{},
				{Actor: "ann"},
				{Reason: "why not"},
				{Actor: strings.Repeat("a", journal.MaxActorBytes+1), Reason: "r"},
				{Actor: "ann", Reason: strings.Repeat("r", journal.MaxReasonBytes+1)},
			} {
				require.ErrorIs(s, verb(s.id("k"), by), saga.ErrReasonRequired, name)
			}
			require.ErrorIs(s, verb(s.id("absent"), someone), saga.ErrNotFound, name)
		}
	})
}

// A verb and the end of a saga at the same time: one wins, and the other hears
// of it.
func TestVerbs_race(t *testing.T) {
	t.Parallel()
	for wait := range 40 {
		inBubble(t, func(s *stage) {
			e := s.open(checkout)
			s.services.Script("inventory.reserve", sagatest.Slow(10*time.Millisecond))
			s.services.Script("shipping.book", sagatest.Slow(10*time.Millisecond))
			_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
			require.NoError(s, err)
			time.Sleep(time.Duration(wait) * time.Millisecond)
			_, cancelled := e.Cancel(s.Context(), s.id("k"), someone)
			_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			done, undone := s.effects("inventory.reserve")
			switch {
			case errors.Is(cancelled, saga.ErrConflict):
				require.NoError(s, err)
				require.Equal(s, 0, undone)
			case err == nil: // the pivot was running
				require.Equal(s, 0, undone)
			default:
				require.ErrorIs(s, err, saga.ErrCancelled)
				require.Equal(s, done, undone)
			}
		})
	}
}

// Two people see the same stuck saga, and decide differently: the second one hears
// that it has moved since.
func TestVerbs_onWhatWasSeen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		stuckUndo(s, e)
		listed, err := e.Reader().Browse(s.Context(), journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, Limit: 1})
		require.NoError(s, err)
		ann := journal.Audit{Actor: "ann", Reason: "refund works again", Revision: listed[0].Revision}
		bob := journal.Audit{Actor: "bob", Reason: "refunded by hand", Revision: listed[0].Revision}

		s.services.ScriptUndo("payment.charge", sagatest.Reject(422))
		_, err = e.Retry(s.Context(), s.id("k"), ann)
		require.NoError(s, err)
		stuck := s.until("k", journal.Stuck) // stuck again: only the revision differs from the record that bob saw
		verbs := map[string]func(by journal.Audit) (journal.Record, error){
			"Retry": func(by journal.Audit) (journal.Record, error) { return e.Retry(s.Context(), stuck.ID, by) },
			"ForceUndone": func(by journal.Audit) (journal.Record, error) {
				return e.ForceUndone(s.Context(), stuck.ID, "payment.charge", by)
			},
			"ForceOK": func(by journal.Audit) (journal.Record, error) {
				return e.ForceOK(s.Context(), stuck.ID, "shipping.book", parcel{}, by)
			},
			"Cancel":  func(by journal.Audit) (journal.Record, error) { return e.Cancel(s.Context(), stuck.ID, by) },
			"Abandon": func(by journal.Audit) (journal.Record, error) { return e.Abandon(s.Context(), stuck.ID, by) },
		}
		for name, verb := range verbs {
			r, err := verb(bob)
			require.ErrorIs(s, err, saga.ErrConflict, name)
			require.ErrorContains(s, err, "it moved on from revision", name)
			require.Equal(s, stuck.Revision, r.Revision, name)
		}
		bob.Revision = stuck.Revision
		_, err = e.ForceUndone(s.Context(), stuck.ID, "payment.charge", bob)
		require.NoError(s, err)
		s.until("k", journal.Compensated)
		log, err := e.Reader().AuditPage(s.Context(), journal.AuditRequest{ID: stuck.ID, Limit: 10})
		require.NoError(s, err)
		require.Len(s, log, 2)
		require.Equal(s, journal.Audit{Verb: journal.VerbForceUndone, Step: "payment.charge", Actor: "bob", Reason: "refunded by hand"}, log[0].Audit)
	})
}

// The saga moves between the look at it and the change: with a revision that is a
// conflict, without one the verb looks again.
func TestVerbs_overtaken(t *testing.T) {
	t.Parallel()
	for _, seen := range []bool{false, true} {
		inBubble(t, func(s *stage) {
			stuckUndo(s, s.open(checkout))
			stuck := s.read("k")
			j := tap(s.journal)
			j.after = func(method string, n int) error {
				if method == "Read" && n == 1 {
					_, won, err := s.journal.Change(context.Background(), journal.Change{ID: stuck.ID, Revision: stuck.Revision, Status: journal.Stuck, By: someone})
					require.NoError(s, err)
					require.True(s, won)
				}
				return nil
			}
			by := someone
			if seen {
				by.Revision = stuck.Revision
			}
			_, err := s.openOn(j, checkout).Abandon(s.Context(), stuck.ID, by)
			if seen {
				require.ErrorIs(s, err, saga.ErrConflict)
				return
			}
			require.NoError(s, err)
		})
	}
}
