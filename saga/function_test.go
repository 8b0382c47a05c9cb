package saga_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
	"github.com/fanonce/fanonce/sdk"
)

// network answers for inventory and for payment, each with one status.
type network struct {
	holds   int // status of inventory's answers; 0: they are lost
	charges int // status of payment's
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	status, body := n.charges, `{"refused":true}`
	if req.URL.Host == "inventory" {
		status, body = n.holds, `{"ID":"h"}`
	}
	if status == 0 {
		return nil, errors.New("the connection was lost")
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}, wire.HeaderReplayed: {"false"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// clientOver returns a client of both services over n.
func (s *stage) clientOver(n http.RoundTripper) *sdk.Client {
	s.Helper()
	client, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"inventory": {URL: "http://inventory"}, "payment": {URL: "http://payment"}},
		Retry:    retry.Config{Transport: n},
	})
	require.NoError(s, err)
	return client
}

// A function is what a step runs; client makes its calls.
type function func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error

// functionOf returns a saga whose first step runs fn, and counts how often it is undone.
func functionOf(client *sdk.Client, fn function, tries, undone *atomic.Int32) *saga.Definition[order, nothing] {
	return saga.MustDefine("trip", 1, func(b *saga.Builder[order, nothing]) {
		b.Timeout(10 * time.Minute)
		b.UndoBudget(time.Hour)
		saga.StepFunc(b, "trip.both", b.Input(), func(ctx context.Context, c saga.Call[order]) (nothing, error) {
			tries.Add(1)
			return nothing{}, fn(ctx, client, c)
		}).UndoFunc("trip.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
			undone.Add(1)
			return nil
		})
		step(b, "trip.next").ReadOnly()
	})
}

func inTurn(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
	if _, err := sdk.Call(ctx, client, reserve, c.Input); err != nil {
		return err
	}
	_, err := sdk.Call(ctx, client, pay, c.Input)
	return err
}

func fanned(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
	f := client.Fanout(ctx)
	sdk.Add(f, pay, c.Input)
	sdk.Add(f, reserve, c.Input)
	return f.Wait()
}

func onlyPay(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
	_, err := sdk.Call(ctx, client, pay, c.Input)
	return err
}

// bareThenPay posts without a key, as code of others does, and then calls payment. status is
// that of the answer to the first; 0 means that the answer is lost.
func bareThenPay(status int) function {
	return func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
		bare, err := retry.New(retry.Config{Transport: &network{holds: status}})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inventory/holds", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		if resp, err := (&http.Client{Transport: bare.RoundTripper()}).Do(req); err == nil {
			_ = resp.Body.Close()
		}
		return onlyPay(ctx, client, c)
	}
}

// generatedThenPay posts as a generated client does, through the client's round tripper, and
// then calls payment.
func generatedThenPay(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inventory/holds", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	if resp, err := (&http.Client{Transport: client.RoundTripper("inventory")}).Do(req); err == nil {
		_ = resp.Body.Close()
	}
	return onlyPay(ctx, client, c)
}

// An outcome that a function's error states holds for all calls of the function.
func TestStepFunc_errors(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for _, tt := range []struct {
		name           string
		holds, charges int
		fn             function
		undone         int32
		outcome        retry.Outcome
		once           bool // one try is enough
	}{
		{"one call, refused", 200, 402, onlyPay, 0, retry.Rejected, true},
		{"one call, refused, wrapped", 200, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return fmt.Errorf("pay: %w", onlyPay(ctx, client, c))
		}, 0, retry.Rejected, true},
		{"two in turn, the second refused", 200, 402, inTurn, 1, retry.Unknown, true},
		{"two in turn, the second refused, wrapped", 200, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return fmt.Errorf("the second call: %w", inTurn(ctx, client, c))
		}, 1, retry.Unknown, true},
		{"two in turn, the first refused", 402, 200, inTurn, 0, retry.Rejected, true},
		{"two beside each other, one refused", 200, 402, fanned, 1, retry.Unknown, true},
		{"two beside each other, both refused", 409, 402, fanned, 0, retry.Rejected, true},
		{"two beside each other, one refused, one lost", 0, 402, fanned, 1, retry.Unknown, false},
		{"a read, then a refusal", 200, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			if _, err := client.Send(ctx, sdk.Request{Service: "inventory", Operation: "look", Method: http.MethodGet, Path: "/holds"}); err != nil {
				return err
			}
			return onlyPay(ctx, client, c)
		}, 0, retry.Rejected, true},
		{"a request without a key took effect, then a refusal", 200, 402, bareThenPay(200), 1, retry.Unknown, true},
		{"a request without a key was lost, then a refusal", 200, 402, bareThenPay(0), 1, retry.Unknown, false},
		{"a request without a key was refused, then a refusal", 200, 402, bareThenPay(402), 0, retry.Rejected, true},
		{"a generated client's request took effect, then a refusal", 200, 402, generatedThenPay, 1, retry.Unknown, true},
		{"a generated client's request was lost, then a refusal", 0, 402, generatedThenPay, 1, retry.Unknown, false},
		{"a generated client's request was refused, then a refusal", 402, 402, generatedThenPay, 0, retry.Rejected, true},
		{"errors joined, one lost", 0, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			_, err := sdk.Call(ctx, client, reserve, c.Input)
			return errors.Join(onlyPay(ctx, client, c), err)
		}, 1, retry.Unknown, false},
		{"joined with an error of no call", 200, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return errors.Join(onlyPay(ctx, client, c), no)
		}, 1, retry.Unknown, false},
		{"calls under another ctx", 200, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return inTurn(childkey.NewContext(context.Background(), c.Key), client, c)
		}, 1, retry.Unknown, false},
		{"an error of its own making", 200, 402, func(context.Context, *sdk.Client, saga.Call[order]) error {
			return &retry.Error{Outcome: retry.Rejected, Err: no}
		}, 1, retry.Unknown, false},
		{"a plain error", 200, 402, func(context.Context, *sdk.Client, saga.Call[order]) error { return no }, 1, retry.Unknown, false},
		{"a nil *retry.Error", 200, 402, func(context.Context, *sdk.Client, saga.Call[order]) error {
			var none *retry.Error
			return none
		}, 1, retry.Unknown, false},
		{"a call in another goroutine goes on", 200, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			err := onlyPay(ctx, client, c)
			retry.CallsFrom(ctx).Begin("of a client that is not ours", false)
			return err
		}, 1, retry.Unknown, false},
		{"Rejected, whatever it called", 200, 402, func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return saga.Rejected(inTurn(ctx, client, c))
		}, 0, retry.Rejected, true},
		{"Permanent", 200, 402, func(context.Context, *sdk.Client, saga.Call[order]) error { return saga.Permanent(no) }, 1, retry.Unknown, true},
		{"NotSent", 200, 402, func(context.Context, *sdk.Client, saga.Call[order]) error { return saga.NotSent(no) }, 0, retry.NotSent, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var tries, undone atomic.Int32
				d := functionOf(s.clientOver(&network{holds: tt.holds, charges: tt.charges}), tt.fn, &tries, &undone)
				_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Equal(s, tt.undone, undone.Load(), "undone")
				require.Equal(s, tt.once, tries.Load() == 1, "%d tries", tries.Load())
				require.Equal(s, tt.outcome, s.events.triesOf("trip.both", false)[0].Outcome)
			})
		})
	}
}

// A call of an earlier attempt stays done, even if a later attempt makes another call.
func TestStepFunc_earlierTries(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var tries, undone atomic.Int32
		d := functionOf(s.clientOver(&network{holds: 200, charges: 402}), func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			if tries.Load() > 1 {
				return onlyPay(ctx, client, c)
			}
			_, err := sdk.Call(ctx, client, reserve, c.Input)
			require.NoError(s, err)
			return errors.New("not now")
		}, &tries, &undone)
		_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.EqualValues(s, 1, undone.Load())
		require.EqualValues(s, 2, tries.Load())
	})
}

// After a run whose calls are not known only a stated refusal counts: that run may have taken another path.
func TestStepFunc_afterAnotherOwnersRun(t *testing.T) {
	t.Parallel()
	reads, err := retry.New(retry.Config{Transport: missing{}})
	require.NoError(t, err)
	look := func(ctx context.Context, _ *sdk.Client, _ saga.Call[order]) error {
		_, err := reads.Send(ctx, retry.Call{Method: http.MethodGet, URL: "http://inventory/items"})
		return err
	}
	for _, tt := range []struct {
		name   string
		second function
		undone int32
	}{
		{"another call, refused", onlyPay, 1},
		{"another call, refused, wrapped", func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return fmt.Errorf("pay: %w", onlyPay(ctx, client, c))
		}, 1},
		{"a fan-out, refused", func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			f := client.Fanout(ctx)
			sdk.AddFunc(f, "pay", func(ctx context.Context) (nothing, error) { return nothing{}, onlyPay(ctx, client, c) })
			return f.Wait()
		}, 1},
		{"a read, refused", look, 1},
		{"Rejected", func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return saga.Rejected(onlyPay(ctx, client, c))
		}, 0},
		{"Rejected of package sdk", func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			return sdk.Rejected(onlyPay(ctx, client, c))
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				var tries, undone atomic.Int32
				d := functionOf(s.clientOver(&network{holds: 200, charges: 402}), func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
					if tries.Load() > 1 {
						return tt.second(ctx, client, c)
					}
					_, err := sdk.Call(ctx, client, reserve, c.Input)
					return err
				}, &tries, &undone)
				first := dead(s.journal, func(method string, n int) bool { return method == "Append" && n == 1 })
				_, err := d.Start(s.Context(), s.openOn(first, d), key(s.T, "k"), basket)
				require.NoError(s, err)
				time.Sleep(time.Millisecond)
				_, err = d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.EqualValues(s, tt.undone, undone.Load())
				if tt.name != "a fan-out, refused" { // it does not say that no further attempt can help
					require.EqualValues(s, 2, tries.Load())
				}
			})
		})
	}
}

// missing answers that there is nothing.
type missing struct{}

func (missing) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: make(http.Header), Body: http.NoBody,
	}, nil
}

// Permanent ends a saga at once, one way or the other.
func TestPermanent(t *testing.T) {
	t.Parallel()
	fail := func(context.Context, saga.Call[order]) (nothing, error) {
		return nothing{}, saga.Permanent(errors.New("closed"))
	}
	for _, tt := range []struct {
		name string
		mark func(first *saga.StepRef[order, nothing])
		want error
	}{
		{"ReadOnly", func(first *saga.StepRef[order, nothing]) { first.ReadOnly() }, saga.ErrCompensated},
		{"Irreversible", func(first *saga.StepRef[order, nothing]) { first.Irreversible() }, saga.ErrCompensated},
		{"pivot", func(first *saga.StepRef[order, nothing]) { first.Pivot() }, saga.ErrStuck},
		{"undo", func(first *saga.StepRef[order, nothing]) {
			first.UndoFunc("a.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
				return saga.Permanent(errors.New("gone"))
			})
		}, saga.ErrStuck},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				d := saga.MustDefine("permanent", 1, func(b *saga.Builder[order, nothing]) {
					first := saga.StepFunc(b, "a.do", b.Input(), fail)
					tt.mark(first)
					step(b, "b.do").Retriable().After(first)
				})
				begun := time.Now()
				_, err := d.Run(s.Context(), s.open(d), key(s.T, "k"), basket)
				require.ErrorIs(s, err, tt.want)
				require.Less(s, time.Since(begun), time.Second)
				require.Len(s, s.events.triesOf("a.do", false), 1)
			})
		})
	}
	for _, wrap := range []func(error) error{saga.Rejected, saga.NotSent, saga.Permanent} {
		require.NoError(t, wrap(nil))
		cause := errors.New("cause")
		require.ErrorIs(t, wrap(cause), cause)
	}
}

// A child saga left nothing only if it is compensated.
func TestStepFunc_childSagas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		faults  []sagatest.Fault // of the undo of the child's first step
		abandon bool
		undone  int32
	}{
		{"compensated", nil, false, 0},
		{"stuck", []sagatest.Fault{sagatest.Reject(409)}, false, 1},
		{"abandoned", []sagatest.Fault{sagatest.Always(sagatest.Unavailable())}, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				child := saga.MustDefine("child", 1, func(b *saga.Builder[order, nothing]) {
					b.UndoBudget(time.Hour)
					held := saga.Step(b, reserve, b.Input()).Undo(release)
					saga.Step(b, pay, b.Input()).Undo(refund).After(held)
				})
				var e *saga.Engine
				var tries, undone atomic.Int32
				ids := make(chan journal.ID, 1)
				parent := functionOf(nil, func(ctx context.Context, _ *sdk.Client, c saga.Call[order]) error {
					if tries.Load() == 1 {
						ids <- journal.IDOf("", "child", c.Key)
					}
					_, err := child.Run(ctx, e, c.Key, c.Input)
					return err
				}, &tries, &undone)
				s.services.Script("payment.charge", sagatest.Reject(402))
				s.services.ScriptUndo("inventory.reserve", tt.faults...)
				e = s.open(parent, child)
				_, err := parent.Start(s.Context(), e, key(s.T, "k"), basket)
				require.NoError(s, err)
				if tt.abandon {
					time.Sleep(20 * time.Second)
					_, err = e.Abandon(s.Context(), <-ids, someone)
					require.NoError(s, err)
				}
				_, err = parent.Run(s.Context(), e, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Equal(s, tt.undone, undone.Load())
			})
		})
	}
}

// A child saga that completed is undone if the next call of the function is refused.
func TestStepFunc_childSagaThenCall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		child := saga.MustDefine("child", 1, func(b *saga.Builder[order, nothing]) {
			saga.Step(b, reserve, b.Input()).Undo(release)
		})
		var e *saga.Engine
		var tries, undone atomic.Int32
		parent := functionOf(s.clientOver(&network{charges: 402}), func(ctx context.Context, client *sdk.Client, c saga.Call[order]) error {
			if _, err := child.Run(ctx, e, c.Key, c.Input); err != nil {
				return err
			}
			return onlyPay(ctx, client, c)
		}, &tries, &undone)
		e = s.open(parent, child)
		_, err := parent.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrCompensated)
		require.EqualValues(s, 1, undone.Load())
	})
}
