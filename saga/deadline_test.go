package saga_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A saga that waits for an engine loses no time: it is driven whenever one comes.
func TestDeadline_waitingForAnEngine(t *testing.T) {
	t.Parallel()
	mail := saga.MustDefine("mail-only", 1, func(b *saga.Builder[parcel, nothing]) {
		saga.Step(b, notify, b.Input()).Retriable()
	})
	hurried := saga.MustDefine("hurried", 1, func(b *saga.Builder[order, receipt]) {
		shop(b)
		b.Timeout(time.Minute)
	})
	remembered := saga.MustDefine("remembered", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(time.Hour)
		saga.Step(b, pay, b.Input()).Undo(refund).Retention(2 * time.Hour)
	})
	inBubble(t, func(s *stage) {
		enqueue(s, checkout, "k", basket)
		enqueue(s, mail, "m", parcel{"t"})
		enqueue(s, hurried, "h", basket)
		enqueue(s, remembered, "r", basket)
		time.Sleep(10 * 24 * time.Hour)
		claimed := time.Now()
		s.services.Script("payment.charge", sagatest.LoseAnswer(), sagatest.Unavailable())
		s.open(checkout, mail, hurried, remembered)
		for _, k := range []string{"k", "m", "h", "r"} {
			r := s.until(k, journal.Completed)
			require.WithinDuration(s, claimed, r.FirstClaimedAt, time.Second)
		}
		for _, d := range s.services.Deliveries() {
			first, _, err := wire.ParseFirstSent(d.Header.Values(wire.HeaderFirstSent))
			require.NoError(s, err)
			require.WithinDuration(s, claimed, first, time.Second, "First-Sent of %s", d.Step)
		}
	})
}

// A saga's Timeout counts from the first claim, and not anew with the next owner.
func TestDeadline_countsFromTheFirstClaim(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("timed", 1, func(b *saga.Builder[order, nothing]) {
		b.Timeout(time.Hour)
		b.UndoBudget(undoBudget)
		saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			return nothing{}, saga.NotSent(errors.New("not yet"))
		}).UndoFunc("a.undo", undo).Retry(saga.RetryPolicy{Attempts: 1000})
	})
	inBubble(t, func(s *stage) {
		enqueue(s, d, "k", basket)
		time.Sleep(2 * time.Hour)
		begun := time.Now()
		first := s.open(d)
		time.Sleep(25 * time.Minute)
		require.NoError(s, first.Close(s.Context()))
		require.Equal(s, journal.Running, s.read("k").Status)
		time.Sleep(25 * time.Minute)
		s.open(d)
		r := s.until("k", journal.Compensated)
		require.Equal(s, journal.ReasonTimeout, r.Cause.Reason)
		require.InDelta(s, time.Hour, r.FailedAt.Sub(begun), float64(time.Second))
	})
}

// A saga without a Timeout gets a deadline only when it must succeed.
func TestDeadline_byDefaultNone(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("open", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(undoBudget)
		a := saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			time.Sleep(30 * time.Hour)
			return nothing{}, nil
		}).UndoFunc("a.undo", undo).AttemptTimeout(48 * time.Hour)
		step(b, "b.do").After(a).Pivot()
	})
	inBubble(t, func(s *stage) {
		e := s.open(d)
		_, err := d.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(29 * time.Hour)
		require.Zero(s, s.read("k").DeadlineAt)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
	})
}

// A step far behind in a saga is not too old to be sent again because those before it took
// long: its key is as old as its own tries.
func TestRetention_countsFromWhenTheStepCouldBegin(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("slow", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(time.Hour)
		slow := saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			time.Sleep(5 * time.Hour)
			return nothing{}, nil
		}).UndoFunc("a.undo", undo).AttemptTimeout(6 * time.Hour)
		saga.Step(b, pay, b.Input()).Undo(refund).After(slow).Retention(2 * time.Hour)
	})
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.LoseAnswer(), sagatest.Unavailable())
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.NoError(s, err)
		s.wantEffects("payment.charge", 1, 0)
	})
}

// An engine whose backoff lets a step be tried for longer than its callee remembers is
// refused.
func TestOpen_backoffBeyondTheRetention(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("old", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(time.Hour)
		saga.Step(b, pay, b.Input()).Undo(refund).Retention(2 * time.Hour)
	})
	inBubble(t, func(s *stage) {
		client, err := s.services.Client("payment")
		require.NoError(s, err)
		_, err = saga.Open(s.Context(), s.journal, saga.Config{
			Client:      client,
			Definitions: []saga.AnyDefinition{d}, Backoff: retry.Backoff{Base: 10 * time.Minute},
		})
		require.ErrorIs(s, err, saga.ErrConfig)
		require.ErrorIs(s, err, saga.ErrRetention)
		require.ErrorContains(s, err, "Backoff: plan old version 1:\n\tretention too short: step payment.charge")
	})
}

// The next owner neither repeats nor undoes a call that its callee has forgotten.
func TestRetention_tooOldStaysSo(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("old", 1, func(b *saga.Builder[order, nothing]) {
		b.UndoBudget(time.Hour)
		saga.Step(b, pay, b.Input()).Undo(refund).Retention(2 * time.Hour)
		saga.Step(b, reserve, b.Input()).Undo(release).Timeout(10 * time.Minute)
	})
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.LoseAnswer(), sagatest.Always(sagatest.Unavailable()))
		s.services.Script("inventory.reserve", sagatest.LoseAnswer(), sagatest.Always(sagatest.Unavailable()))
		first := s.open(d)
		_, err := d.Start(s.Context(), first, key(s.T, "k"), basket)
		require.NoError(s, err)
		time.Sleep(time.Minute)
		require.NoError(s, first.Close(s.Context()))
		time.Sleep(3 * time.Hour)
		e := s.open(d)
		_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		s.wantEffects("payment.charge", 1, 0)
		for range 3 {
			_, err = e.Retry(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
			time.Sleep(time.Second)
			r := s.until("k", journal.Stuck)
			require.Equal(s, "payment.charge", r.StuckOn.Step)
		}
		s.wantEffects("payment.charge", 1, 0)
		s.wantEffects("inventory.reserve", 1, 1)
	})
}
