package saga_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// decisive is a saga with a pivot.
func decisive() *saga.Definition[order, receipt] {
	return saga.MustDefine("decisive", 1, func(b *saga.Builder[order, receipt]) {
		const keep = 10 * time.Hour
		b.UndoBudget(undoBudget)
		held := saga.Step(b, reserve, b.Input()).Undo(release).Retention(keep)
		paid := saga.Step(b, pay, b.Input()).Undo(refund).Retention(keep).After(held)
		sent := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), func(h hold, c charge) booking {
			return booking{h.ID, c.ID}
		})).Pivot().Retention(keep)
		saga.Step(b, notify, sent.Output()).Retriable().Retention(keep)
		saga.Return(b, saga.Map(sent.Output(), func(p parcel) receipt { return receipt(p) }))
	})
}

// An owner that takes over before the pivot begins compensates, whatever ends the saga.
func TestPivot_notBegunByTheDead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		faults []sagatest.Fault // of the charge, which is before the pivot
		cancel bool
	}{
		"refusal": {[]sagatest.Fault{sagatest.Delay(time.Minute, sagatest.LoseRequest()), sagatest.Always(sagatest.Reject(402))}, false},
		"cancel":  {[]sagatest.Fault{sagatest.Delay(time.Minute, sagatest.LoseRequest()), sagatest.Slow(10 * time.Second)}, true},
		"timeout": {[]sagatest.Fault{sagatest.Always(sagatest.Unavailable())}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				d := decisive()
				s.services.Script("payment.charge", tt.faults...)
				var killed atomic.Bool
				first := tap(s.journal)
				first.before = func(string, int) error {
					if killed.Load() {
						return errors.New("dead")
					}
					return nil
				}
				_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), basket)
				require.NoError(s, err)
				time.Sleep(time.Second)
				killed.Store(true)
				time.Sleep(30 * time.Second)
				second := s.open(d)
				time.Sleep(2 * time.Second) // it took over, and the charge is running
				if tt.cancel {
					_, err = second.Cancel(s.Context(), s.read("k").ID, someone)
					require.NoError(s, err)
				}
				_, err = d.Run(s.Context(), second, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				s.wantEffects("inventory.reserve", 1, 1)
				s.wantEffects("shipping.book", 0, 0)
			})
		})
	}
}

// The journal has the pivot before the callee has it.
func TestPivot_isWrittenBeforeItIsBegun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := decisive()
		s.services.Script("shipping.book", sagatest.Slow(10*time.Second))
		_, err := d.Start(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Second)
		entries := s.read("k").Entries
		require.Len(s, entries, 3)
		require.Equal(s, "shipping.book", entries[2].Step)
		require.True(s, entries[2].Pending)
	})
}
