package saga_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

func TestRun_completes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("inventory.reserve", `{"ID":"h"}`)
		s.services.Answer("payment.charge", `{"ID":"c"}`)
		s.services.Answer("shipping.book", `{"Track":"t-1"}`)
		e := s.open(checkout)
		got, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, receipt{"t-1"}, got)
		for _, step := range checkout.Steps() {
			s.wantEffects(step.Name, 1, 0)
		}
		seen := s.services.Deliveries()
		require.Len(s, seen, 4)
		require.JSONEq(s, `{"Hold":"h","Charge":"c"}`, string(seen[2].Body))
		created := s.read("k").CreatedAt
		for _, d := range seen {
			first, _, err := wire.ParseFirstSent(d.Header.Values(wire.HeaderFirstSent))
			require.NoError(s, err)
			require.True(s, first.Equal(created), "first sent %v, want when the plan was stored, %v", first, created)
		}
		want, err := childkey.Derive(parentOf(s.T, "", "checkout", "k"), "shipping", "book")
		require.NoError(s, err)
		require.Equal(s, want, seen[2].Key)

		again, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Equal(s, got, again)
		require.Len(s, s.services.Deliveries(), 4)
	})
}

func TestRun_compensates(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("inventory.reserve", `{"ID":"h"}`)
		s.services.Script("payment.charge", sagatest.Reject(402))
		e := s.open(checkout)
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.ErrorIs(s, err, retry.ErrRejected)
		require.Equal(s, "payment.charge", failed.FailedStep)
		require.Equal(s, []string{"inventory.reserve"}, failed.Undone)
		require.Empty(s, failed.Pending)
		var cause *retry.Error
		require.ErrorAs(s, err, &cause)
		require.Equal(s, 402, cause.Status)
		s.wantEffects("inventory.reserve", 1, 1)
		s.wantEffects("payment.charge", 0, 0)
		s.wantEffects("shipping.book", 0, 0)

		undo := s.services.Deliveries()[2]
		forward, err := childkey.Derive(parentOf(s.T, "", "checkout", "k"), "inventory", "reserve")
		require.NoError(s, err)
		own, err := childkey.Derive(parentOf(s.T, "", "checkout", "k"), "inventory", "release")
		require.NoError(s, err)
		require.Equal(s, own, undo.Key)
		require.Equal(s, forward, undo.Cancels)
		require.JSONEq(s, `{"input":{"sku":"a-1","cents":100},"output":{"ID":"h"}}`, string(undo.Body))

		// A later caller gets the same error, from the journal.
		_, later := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		var same *saga.Error
		require.ErrorAs(s, later, &same)
		require.Equal(s, failed.Error(), same.Error())
		require.Len(s, s.services.Deliveries(), 3)
	})
}

// If a sibling fails while a call is running, the saga waits for the call, finds out its outcome,
// and undoes it.
func TestRun_drainsBeforeItUndoes(t *testing.T) {
	t.Parallel()
	for _, late := range []sagatest.Fault{sagatest.Pass(), sagatest.LoseAnswer()} {
		inBubble(t, func(s *stage) {
			s.services.Script("inventory.reserve", sagatest.Delay(10*time.Second, late))
			s.services.Script("payment.charge", sagatest.Reject(402))
			_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated)
			s.wantEffects("inventory.reserve", 1, 1)
		})
	}
}

func TestRun_badInput(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		e := s.open(checkout)
		run := func(ctx context.Context, k childkey.Key, in order, options ...saga.RunOption) error {
			_, err := checkout.Run(ctx, e, k, in, options...)
			return err
		}
		done, cancel := context.WithCancel(s.Context())
		cancel()
		k := key(s.T, "k")
		require.ErrorIs(s, run(done, k, basket), context.Canceled)
		require.ErrorIs(s, run(s.Context(), childkey.Key{}, basket), saga.ErrInvalidKey)
		require.ErrorIs(s, run(s.Context(), k, basket, saga.Scope(string(make([]byte, 256)))), saga.ErrInvalidKey)
		require.ErrorIs(s, run(s.Context(), k, basket, saga.Scope("t\xff")), saga.ErrInvalidKey)
		require.ErrorIs(s, run(s.Context(), k, basket, saga.Scope("t\x00")), saga.ErrInvalidKey)
		require.ErrorIs(s, run(s.Context(), k, order{SKU: string(make([]byte, journal.MaxInputBytes))}), saga.ErrEncode)
		other := saga.MustDefine("checkout", 2, shop)
		_, err := other.Run(s.Context(), e, k, basket)
		require.ErrorIs(s, err, saga.ErrNoDefinition)
		stats, err := e.Stats(s.Context())
		require.NoError(s, err)
		require.Empty(s, stats.ByStatus, "something was stored")
		require.Empty(s, s.services.Deliveries())

		require.NoError(s, run(s.Context(), k, basket))
		require.ErrorIs(s, run(s.Context(), k, order{SKU: "another"}), saga.ErrKeyReused)
		require.NoError(s, run(s.Context(), k, order{SKU: "another"}, saga.Scope("tenant")))
	})
}

// A caller that repeats its request in another zone asks for the same saga: the same instant is an
// equal value. Another instant is not.
func TestRun_inAnotherZone(t *testing.T) {
	t.Parallel()
	type delivery struct {
		At    time.Time
		Stops map[string]*time.Time
	}
	deliver := saga.MustDefine("deliver", 1, func(b *saga.Builder[delivery, nothing]) {
		saga.StepFunc(b, "van.drive", b.Input(), func(context.Context, saga.Call[delivery]) (nothing, error) { return nothing{}, nil }).ReadOnly()
	})
	inBubble(t, func(s *stage) {
		e, at := s.open(deliver), time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC)
		for _, zone := range []*time.Location{time.UTC, time.FixedZone("CET", 3600), time.FixedZone("", -18000)} {
			here := at.In(zone)
			_, err := deliver.Run(s.Context(), e, key(s.T, "k"), delivery{here, map[string]*time.Time{"first": &here}})
			require.NoError(s, err, zone)
		}
		_, err := deliver.Run(s.Context(), e, key(s.T, "k"), delivery{At: at.Add(time.Second)})
		require.ErrorIs(s, err, saga.ErrKeyReused)
	})
}

// 32 callers in two processes share one run.
func TestRun_attaches(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Answer("shipping.book", `{"Track":"t"}`)
		s.services.Script("shipping.book", sagatest.Slow(5*time.Second))
		engines := []*saga.Engine{s.open(checkout), s.open(checkout)}
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				got, err := checkout.Run(s.Context(), engines[i%2], key(s.T, "k"), basket)
				if err != nil || got.Track != "t" {
					s.Errorf("got %v, %v", got, err)
				}
			})
		}
		wg.Wait()
		require.Len(s, s.services.Deliveries(), 4)
	})
}

// The caller's ctx bounds its waiting and nothing else.
func TestRun_callerHangsUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(5*time.Second))
		s.services.Script("shipping.book", sagatest.Reject(409))
		e := s.open(checkout)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, err := checkout.Run(ctx, e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrDetached)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		s.until("k", journal.Compensated)
		s.wantEffects("inventory.reserve", 1, 1)
		s.wantEffects("payment.charge", 1, 1)
	})
}

func TestStart_returnsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(5*time.Second))
		begun := time.Now()
		r, err := checkout.Start(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Zero(s, time.Since(begun))
		require.Equal(s, journal.Running, r.Status)
		s.until("k", journal.Completed)
	})
}

// A saga that is started without an engine, as within a transaction, is claimed.
func TestRequest_isClaimed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		enqueue(s, checkout, "k", basket)
		e := s.open(checkout)
		_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Len(s, s.services.Deliveries(), 4)
	})
}

// Every outcome of a call before the pivot, and what it leads to.
func TestRun_outcomes(t *testing.T) {
	t.Parallel()
	always := func(f sagatest.Fault) []sagatest.Fault { return []sagatest.Fault{sagatest.Always(f)} }
	tests := []struct {
		name         string
		faults       []sagatest.Fault // of payment.charge
		want         error            // nil: completes
		outcome      retry.Outcome
		done, undone int
	}{
		{"lost request", []sagatest.Fault{sagatest.LoseRequest()}, nil, 0, 1, 0},
		{"lost answer", []sagatest.Fault{sagatest.LoseAnswer()}, nil, 0, 1, 0},
		{"no connection", []sagatest.Fault{sagatest.NotSent()}, nil, 0, 1, 0},
		{"an outage of the service", []sagatest.Fault{
			sagatest.Unavailable(), sagatest.Unavailable(), sagatest.Unavailable(), sagatest.Unavailable(),
			sagatest.Unavailable(), sagatest.Unavailable(), sagatest.Unavailable(), sagatest.Unavailable(),
		}, nil, 0, 1, 0},
		{"refused", []sagatest.Fault{sagatest.Reject(402)}, retry.ErrRejected, retry.Rejected, 0, 0},
		{"refused, and its answer lost", []sagatest.Fault{
			sagatest.LoseRequest(), sagatest.Reject(402),
		}, retry.ErrRejected, retry.Rejected, 0, 0},
		{"a gateway's 401 after a lost answer proves nothing", []sagatest.Fault{
			sagatest.LoseAnswer(), sagatest.Gateway(401),
		}, nil, 0, 1, 0},
		{"a gateway without a backend after a lost answer", []sagatest.Fault{
			sagatest.LoseAnswer(), sagatest.Gateway(404), sagatest.Gateway(405), sagatest.Gateway(400), sagatest.Gateway(307),
		}, nil, 0, 1, 0},
		{"the same for longer than one call is retried", append([]sagatest.Fault{sagatest.LoseAnswer()},
			slices.Repeat([]sagatest.Fault{sagatest.Gateway(404)}, 25)...), nil, 0, 1, 0},
		{"a gateway's page with status 200", []sagatest.Fault{sagatest.Gateway(200), sagatest.Gateway(201)}, nil, 0, 1, 0},
		{"a gateway's 403 after lost requests proves nothing", []sagatest.Fault{
			sagatest.LoseRequest(), sagatest.LoseRequest(), sagatest.LoseRequest(), sagatest.LoseRequest(), sagatest.Gateway(403),
		}, nil, 0, 1, 0},
		{"never reachable", always(sagatest.NotSent()), retry.ErrNotSent, retry.NotSent, 0, 0},
		{"nobody knows, and it took effect", always(sagatest.Forget(true)), retry.ErrUnknown, retry.Unknown, 1, 1},
		{"nobody knows, and it did not", always(sagatest.Forget(false)), retry.ErrUnknown, retry.Unknown, 0, 0},
		{"the answer that the next step needs is gone", []sagatest.Fault{
			sagatest.LoseAnswer(), sagatest.Gone(),
		}, retry.ErrCompleted, retry.Completed, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				s.services.Script("payment.charge", tt.faults...)
				_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
				s.wantEffects("payment.charge", tt.done, tt.undone)
				if tt.want == nil {
					require.NoError(s, err)
					return
				}
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.ErrorIs(s, err, tt.want)
				s.wantEffects("inventory.reserve", 1, 1)
				var failed *saga.Error
				require.True(s, errors.As(err, &failed))
				if failed.FailedStep != "" {
					require.Equal(s, tt.outcome, failed.Outcome)
				}
			})
		})
	}
}
