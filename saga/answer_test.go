package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/sdk"
)

const noFunds = `{"code":"card-declined","detail":"No funds.","balance":17}`

// requireNoFunds checks what the caller of a saga gets whose card was declined.
func requireNoFunds(s *stage, err error, step string) {
	s.Helper()
	var failed *saga.Error
	require.ErrorAs(s, err, &failed)
	require.Equal(s, step, failed.FailedStep)
	require.Equal(s, 402, failed.HTTPStatus)
	require.Equal(s, wire.Code("card-declined"), failed.Code)
	require.Equal(s, "No funds.", failed.Detail)
	require.Equal(s, noFunds, string(failed.Body))
	var answer struct{ Balance int }
	require.NoError(s, failed.Decode(&answer))
	require.Equal(s, 17, answer.Balance)
	var cause *retry.Error
	require.ErrorAs(s, err, &cause)
	require.Equal(s, failed.Code, cause.Code)
	require.NoError(s, cause.Decode(&answer))
	require.NotContains(s, err.Error(), "No funds", "it may speak of people")
}

// paying is a saga of one step, which is a function.
func paying(fn func() error, back func()) *saga.Definition[order, nothing] {
	return saga.MustDefine("paying", 1, func(b *saga.Builder[order, nothing]) {
		saga.StepFunc(b, "card.pay", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
			return nothing{}, fn()
		}).UndoFunc("card.back", func(context.Context, saga.UndoCall[order, nothing]) error {
			back()
			return nil
		})
	})
}

// The callee's answer reaches the caller of Run. It does so in the process that ended the saga,
// in any other process, and in a process that took the saga over before its end.
func TestError_bodyOfAStep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.RejectWith(402, noFunds))
		e := s.open(checkout)
		for range 2 {
			_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
			requireNoFunds(s, err, "payment.charge")
		}
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		requireNoFunds(s, err, "payment.charge")
		require.Equal(s, noFunds, string(s.read("k").Cause.Body))
	})
}

func TestError_bodyAfterATakeOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("payment.charge", sagatest.RejectWith(402, noFunds))
		failed := dead(s.journal, func(method string, _ int) bool {
			isUndo := func(d sagatest.Delivery) bool { return d.Undo }
			return method == "Append" && slices.ContainsFunc(s.services.Deliveries(), isUndo)
		})
		_, err := checkout.Start(s.Context(), s.openOn(failed, checkout), key(s.T, "k"), basket)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		requireNoFunds(s, err, "payment.charge")
		require.EqualValues(s, 2, s.read("k").Fence)
	})
}

// A function that vouches for its outcome keeps what its callee answered.
func TestError_bodyOfAFunction(t *testing.T) {
	t.Parallel()
	declined := func() error {
		return &retry.Error{
			Outcome: retry.Rejected, Status: 402, Code: "card-declined", Detail: "No funds.", Body: []byte(noFunds), Err: errors.New("status 402"),
		}
	}
	for name, fn := range map[string]func() error{
		"Rejected":            func() error { return saga.Rejected(declined()) },
		"Rejected, wrapped":   func() error { return fmt.Errorf("pay: %w", saga.Rejected(fmt.Errorf("card: %w", declined()))) },
		"Permanent":           func() error { return saga.Permanent(declined()) },
		"of a fan-out":        func() error { return saga.Rejected(&sdk.FanoutError{Results: []sdk.Result{{Err: declined()}}}) },
		"the call's, at once": declined,
	} {
		inBubble(t, func(s *stage) {
			d := paying(fn, func() {})
			_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated, name)
			requireNoFunds(s, err, "card.pay")
		})
	}
}

// A code of the idempotency layer speaks for one call. A function that made several must
// not be taken at that word.
func TestRejected_codesOfTheIdempotencyLayer(t *testing.T) {
	t.Parallel()
	for _, situation := range wire.Situations() {
		for _, wrap := range []func(error) error{saga.Rejected, saga.NotSent, saga.Permanent} {
			var failed *retry.Error
			require.ErrorAs(t, wrap(&retry.Error{Code: situation.Code, Status: situation.Status, Body: []byte("{}"), Err: errors.New("no")}), &failed)
			require.Empty(t, failed.Code)
			require.Equal(t, situation.Status, failed.Status)
			require.Equal(t, "{}", string(failed.Body))
		}
	}
}

// An undo that is refused says why to the person whom the saga waits for.
func TestError_bodyOfAnUndo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("shipping.book", sagatest.RejectWith(402, noFunds))
		s.services.ScriptUndo("payment.charge", sagatest.RejectWith(409, `{"code":"already-paid-out"}`))
		_, err := checkout.Run(s.Context(), s.open(checkout), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		requireNoFunds(s, err, "shipping.book")
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.True(s, failed.StuckOn.Undo)
		require.Equal(s, wire.Code("already-paid-out"), failed.StuckOn.Code)
		require.Equal(s, `{"code":"already-paid-out"}`, string(failed.StuckOn.Body))
		require.Equal(s, failed.StuckOn, s.read("k").StuckOn)
	})
}

// The body is that of the last answer. An attempt without an answer leaves none.
func TestError_bodyOfTheLastAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		n := 0
		d := paying(func() error {
			if n++; n > 1 {
				return saga.Permanent(errors.New("closed"))
			}
			return saga.NotSent(&retry.Error{Status: 503, Code: "busy", Body: []byte("{}"), Err: errors.New("busy")})
		}, func() {})
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.Zero(s, failed.HTTPStatus)
		require.Empty(s, failed.Code)
		require.Nil(s, failed.Body)
		require.ErrorIs(s, failed.Decode(new(any)), contract.ErrBody)
	})
}

// A body up to the limit is kept unchanged. A longer body is left out, and the error says so. Its
// beginning would not decode, or would decode as another value.
func TestError_bodyTooLong(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, tt := range []struct {
		n    int
		kept bool
	}{{2, true}, {journal.MaxBodyBytes, true}, {journal.MaxBodyBytes + 1, false}, {100 << 10, false}} {
		inBubble(t, func(s *stage) {
			s.services.Script("payment.charge", sagatest.RejectWith(402, text(tt.n)))
			e := s.open(checkout)
			for range 2 {
				_, err := checkout.Run(s.Context(), e, key(s.T, "k"), basket)
				var failed *saga.Error
				require.ErrorAs(s, err, &failed)
				require.Equal(s, 402, failed.HTTPStatus)
				require.Equal(s, !tt.kept, failed.BodyTooLong, tt.n)
				var body string
				decoded := failed.Decode(&body)
				if tt.kept {
					require.NoError(s, decoded)
					require.Equal(s, text(tt.n), `"`+body+`"`)
					continue
				}
				require.Nil(s, failed.Body)
				require.ErrorIs(s, decoded, contract.ErrBody)
				require.ErrorContains(s, decoded, "8192 bytes")
			}
			entry := s.read("k").Entries[1]
			require.Equal(s, "payment.charge", entry.Step)
			require.Equal(s, !tt.kept, entry.BodyTooLong)
		})
	}
}

// An error that a function made itself can hold anything, and may change later. The
// journal can store it, and keeps what it was.
func TestError_bodyOfAFunctionsOwnMaking(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		body := []byte(`{"a":1}`)
		d := paying(func() error {
			return saga.Permanent(&retry.Error{
				Status: 402, Code: wire.Code(strings.Repeat("\xff", journal.MaxDetailBytes)), Detail: "\xff", Body: body, Err: errors.New("no"),
			})
		}, func() { clear(body) })
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		var failed *saga.Error
		require.ErrorAs(s, err, &failed)
		require.Equal(s, `{"a":1}`, string(failed.Body))
		require.Equal(s, "\uFFFD", string(failed.Code), "a run of bytes that are no text")
		require.Equal(s, "\uFFFD", failed.Detail)
		clear(failed.Body)
		require.Equal(s, `{"a":1}`, string(s.read("k").Cause.Body))
	})
}
