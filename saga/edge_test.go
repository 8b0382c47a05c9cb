package saga_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// The saga's time is up while the pivot is running for the first time. The saga waits for the
// pivot, and the pivot decides.
func TestPivot_underWayAtTheDeadline(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("short", 1, func(b *saga.Builder[order, receipt]) {
		shop(b)
		b.Timeout(10 * time.Second)
	})
	inBubble(t, func(s *stage) {
		s.services.Script("shipping.book", sagatest.Slow(20*time.Second))
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.NoError(s, err)
		s.wantEffects("inventory.reserve", 1, 0)
	})
}

// An attempt that was certainly not sent proves nothing about an earlier attempt.
func TestStepFunc_notSentAfterUnknown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		tries, undone := 0, false
		d := saga.MustDefine("bank", 1, func(b *saga.Builder[int, nothing]) {
			saga.StepFunc(b, "bank.transfer", b.Input(), func(context.Context, saga.Call[int]) (nothing, error) {
				if tries++; tries == 1 {
					return nothing{}, errors.New("it happened, and nobody heard of it")
				}
				return nothing{}, &retry.Error{Outcome: retry.NotSent, Err: errors.New("no connection")}
			}).UndoFunc("bank.recall", func(context.Context, saga.UndoCall[int, nothing]) error {
				undone = true
				return nil
			}).Timeout(time.Minute)
		})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), 1)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorIs(s, err, saga.ErrTimeout)
		require.ErrorIs(s, err, retry.ErrUnknown)
		require.True(s, undone)
	})
}

// The saga completed; what it returned is gone, and nothing is made up for it.
func TestRun_resultIsGone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		d := saga.MustDefine("book", 1, func(b *saga.Builder[order, receipt]) {
			sent := saga.Step(b, book, saga.Map(b.Input(), func(order) booking { return booking{} }))
			saga.Return(b, saga.Map(sent.Output(), func(p parcel) receipt { return receipt(p) }))
		})
		s.services.Script("shipping.book", sagatest.LoseAnswer(), sagatest.Gone())
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrNoResult)
		require.Equal(s, journal.Completed, s.read("k").Status)
	})
}

// A result that cannot be stored is reported as such, and not as a panic. A result whose encoding
// panics is reported as a panic.
func TestRun_resultNotKept(t *testing.T) {
	t.Parallel()
	type result struct {
		Number float64
		Text   string
	}
	tests := []struct {
		name   string
		result func(order) result
		want   saga.Snapshot
		text   string
	}{
		{"too large", func(order) result {
			return result{Text: strings.Repeat("x", journal.MaxResultBytes)}
		}, saga.Snapshot{NoResults: 1}, "bytes, at most"},
		{"without a form in JSON", func(order) result {
			return result{Number: math.NaN()}
		}, saga.Snapshot{NoResults: 1}, "cannot be encoded"},
		{"panics", func(order) result { panic("in the result") }, saga.Snapshot{Panics: 1}, "sdk: panic: in the result"},
	}
	for _, tt := range tests {
		inBubble(t, func(s *stage) {
			d := saga.MustDefine("book", 1, func(b *saga.Builder[order, result]) {
				saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil })
				saga.Return(b, saga.Map(b.Input(), tt.result))
			})
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrNoResult, tt.name)
			require.Equal(s, journal.Completed, s.read("k").Status)
			metrics := saga.NewMetrics()
			s.events.mu.Lock()
			defer s.events.mu.Unlock()
			for _, event := range s.events.engine {
				metrics.Observe(s.Context(), event)
				require.Equal(s, s.id("k"), event.ID, tt.name)
				require.ErrorContains(s, event.Err, tt.text, tt.name)
			}
			got := metrics.Snapshot()
			got.Sagas = nil
			require.Equal(s, tt.want, got, tt.name)
		})
	}
}

// A result that is too large is not kept, and the step behind it cannot run: its
// effect is undone.
func TestRun_resultTooLarge(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		large := `{"ID":"` + string(make([]byte, 0)) + `"}`
		for len(large) <= journal.MaxResultBytes {
			large = `{"ID":"` + large[7:len(large)-2] + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" + large[7:len(large)-2] + `"}`
		}
		s.services.Answer("inventory.reserve", large)
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorIs(s, err, retry.ErrCompleted)
		s.wantEffects("inventory.reserve", 1, 1)
		s.wantEffects("payment.charge", 1, 1)
	})
}

// A call that its callee may have forgotten is not sent again: it could run twice unnoticed.
func TestRetention(t *testing.T) {
	t.Parallel()
	const timeout, budget = time.Hour, time.Hour
	d := saga.MustDefine("old", 1, func(b *saga.Builder[order, nothing]) {
		b.Timeout(timeout)
		b.UndoBudget(budget)
		saga.Step(b, pay, b.Input()).Undo(refund).Retention(timeout + budget)
	})
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.LoseAnswer(), sagatest.Always(sagatest.Unavailable()))
		first := s.open(d)
		_, err := d.Start(s.Context(), first, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		require.NoError(s, first.Close(s.Context()))
		time.Sleep(3 * time.Hour) // nobody was there
		sent := len(s.services.Deliveries())
		e := s.open(d)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		require.Len(s, s.services.Deliveries(), sent)
		// Somebody looked: it had been charged.
		s.services.Script("payment.charge")
		_, err = e.ForceOK(s.Context(), s.id("k"), "payment.charge", charge{"c"}, someone)
		require.NoError(s, err)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		s.wantEffects("payment.charge", 1, 1)
	})
}

// A call that is running when the lease is lost is cut off. This happens a tenth of the lease
// before another engine could claim the saga.
func TestLease_cutsOffCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		cut := make(chan time.Duration, 10)
		begun := time.Now()
		d := saga.MustDefine("slow", 1, func(b *saga.Builder[int, nothing]) {
			saga.StepFunc(b, "a.do", b.Input(), func(ctx context.Context, _ saga.Call[int]) (nothing, error) {
				<-ctx.Done()
				require.ErrorIs(s, context.Cause(ctx), journal.ErrLeaseLost)
				cut <- time.Since(begun)
				return nothing{}, ctx.Err()
			}).AttemptTimeout(time.Hour)
		})
		e := s.openOn(beatsOnce(s.journal), d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), 1)
		require.NoError(s, err)
		require.Equal(s, saga.DefaultLease*9/10, <-cut)
	})
}
