package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// offline is a client whose service nobody can reach: for fan-outs that call
// nothing.
func offline(tb testing.TB) *sdk.Client {
	tb.Helper()
	return bounded(tb, 0, nowhere)
}

const nowhere = "http://127.0.0.1:0"

// bounded returns a client for payment, whose fan-outs run so many branches at a time.
func bounded(tb testing.TB, maxParallel int, url string) *sdk.Client {
	tb.Helper()
	c, err := sdk.New(sdk.Config{Retry: quick, MaxParallel: maxParallel, Services: map[string]sdk.Service{"payment": {URL: url}}})
	require.NoError(tb, err)
	return c
}

func TestFanout_results(t *testing.T) { // not parallel: counts goroutines
	noLeaks(t)
	d := sdktest.New(t, answering(map[string]string{"ID": "x"}))
	ctx := parent(t, "p")
	f := newClient(t, d).Fanout(ctx)
	held := sdk.Add(f, reserve, lines{[]string{"a"}})
	charged := sdk.Add(f, pay, amount{1})
	ship := sdk.AddFunc(f, "ship", func(ctx context.Context) (string, error) {
		h, err := held.Get(ctx)
		if err != nil {
			return "", err
		}
		c, err := charged.Get(ctx)
		return h.ID + c.ID, err
	})
	require.Empty(t, d.Requests(), "sent before the plan was complete")
	require.NoError(t, f.Wait())
	require.NoError(t, f.Wait(), "again")
	got, err := ship.Get(ctx)
	require.NoError(t, err)
	require.Equal(t, "xx", got)
	require.Equal(t, "ship", ship.Name())
	results := f.Results()
	require.Len(t, results, 3)
	require.Equal(t, sdk.Result{Name: "inventory.reserve", Outcome: retry.Completed, Value: hold{"x"}}, results["inventory.reserve"])
	require.Equal(t, map[string]int{
		child(ctx, t, "inventory", "reserve").String(): 1,
		child(ctx, t, "payment", "charge").String():    1,
	}, d.Effects())
}

// A plan built in any order sends the same keys with the same bodies.
func TestFanout_keysDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	var first map[string]string
	for seed := range uint64(5) {
		d := sdktest.New(t, answering(charge{}))
		f := newClient(t, d).Fanout(parent(t, "p"))
		skus := []string{"a", "b", "c", "d", "e"}
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(skus), func(i, j int) { skus[i], skus[j] = skus[j], skus[i] })
		sdk.AddEach(f, pay, skus, func(s string) string { return s }, func(s string) amount { return amount{int(s[0])} })
		require.NoError(t, f.Wait())
		sent := make(map[string]string)
		for _, r := range d.Requests() {
			sent[r.Key] = string(r.Body)
		}
		require.Len(t, sent, 5)
		if first == nil {
			first = sent
		}
		require.Equal(t, first, sent)
	}
}

func TestFanout_refusesTheWholePlanBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	none := contract.Post[amount, charge]("shipping", "book", "/bookings")
	fn := func(context.Context) (int, error) { return 0, nil }
	tests := []struct {
		name string
		ctx  func(testing.TB, string) context.Context
		plan func(f *sdk.Fanout)
		want error
	}{
		{"nil ids", parent, func(f *sdk.Fanout) {
			sdk.AddEach(f, pay, []string{"a", "b"}, nil, func(string) amount { return amount{1} })
		}, sdk.ErrBranch},
		{"nil inputs", parent, func(f *sdk.Fanout) {
			sdk.AddEach(f, pay, nil, func(id string) string { return id }, nil)
		}, sdk.ErrBranch},
		{"nil function", parent, func(f *sdk.Fanout) { sdk.AddFunc[int](f, "f", nil) }, sdk.ErrBranch},
		{"no name", parent, func(f *sdk.Fanout) { sdk.AddFunc(f, "", fn) }, sdk.ErrBranch},
		{"one name twice", parent, func(f *sdk.Fanout) { sdk.AddFunc(f, "f", fn); sdk.AddFunc(f, "f", fn) }, sdk.ErrBranch},
		{"name of a call", parent, func(f *sdk.Fanout) { sdk.AddFunc(f, "payment.charge", fn) }, sdk.ErrBranch},
		{"one call twice", parent, func(f *sdk.Fanout) { sdk.Add(f, pay, amount{1}) }, childkey.ErrDuplicateChild},
		{"other payload", parent, func(f *sdk.Fanout) { sdk.Add(f, pay, amount{2}) }, childkey.ErrDuplicateChild},
		{"one id twice", parent, func(f *sdk.Fanout) {
			sdk.AddEach(f, pay, []int{1, 1}, strconv.Itoa, func(i int) amount { return amount{i} })
		}, childkey.ErrDuplicateChild},
		{"unknown service", parent, func(f *sdk.Fanout) { sdk.Add(f, none, amount{1}) }, sdk.ErrNoService},
		{"unset wildcard", parent, func(f *sdk.Fanout) { sdk.Add(f, capture, amount{1}) }, contract.ErrInvalid},
		{"no parent", func(tb testing.TB, _ string) context.Context { return tb.Context() }, func(*sdk.Fanout) {}, sdk.ErrNoParent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, nil)
			f := newClient(t, d).Fanout(tt.ctx(t, "p"))
			good := sdk.Add(f, pay, amount{1})
			tt.plan(f)
			err := f.Wait()
			require.ErrorIs(t, err, tt.want)
			require.False(t, sdk.Resumable(err))
			var all *sdk.FanoutError
			require.ErrorAs(t, err, &all)
			for _, r := range all.Results {
				require.Equal(t, retry.NotSent, r.Outcome)
				require.ErrorIs(t, r.Err, retry.ErrNotSent)
			}
			_, err = good.Get(t.Context())
			require.ErrorIs(t, err, retry.ErrNotSent)
			require.Empty(t, d.Requests())
		})
	}
}

func TestFanout_withoutBranches(t *testing.T) {
	t.Parallel()
	c := offline(t)
	require.ErrorIs(t, c.Fanout(parent(t, "p")).Wait(), sdk.ErrNoCalls)
	require.ErrorIs(t, c.Fanout(t.Context()).Wait(), sdk.ErrNoParent)

	f := c.Fanout(parent(t, "p"))
	require.Empty(t, sdk.AddEach(f, pay, []int(nil), strconv.Itoa, func(int) amount { return amount{} }))
	require.NoError(t, f.Wait(), "an empty list is nothing to do, and no mistake")
}

func TestFanout_goAfterWait(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	f := newClient(t, d).Fanout(parent(t, "p"))
	sdk.Add(f, reserve, lines{})
	require.NoError(t, f.Wait())
	_, err := sdk.Add(f, pay, amount{1}).Get(t.Context())
	require.ErrorIs(t, err, sdk.ErrWaited)
	require.ErrorIs(t, err, retry.ErrNotSent)
	require.NoError(t, f.Wait(), "Wait changed its mind")
	require.Len(t, d.Requests(), 1)
}

func TestFanout_failureStopsDependentsAndNobodyElse(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{"c"}))
	lost := make([]sdktest.Fault, 4)
	for i := range lost {
		lost[i] = sdktest.DropResponse()
	}
	d.Script("/reservations", lost...)
	ctx := parent(t, "p")
	f := newClient(t, d).Fanout(ctx)
	held := sdk.Add(f, reserve, lines{})
	charged := sdk.Add(f, pay, amount{1})
	ship := sdk.AddFunc(f, "ship", func(ctx context.Context) (string, error) {
		h, err := held.Get(ctx)
		return h.ID, err
	})
	err := f.Wait()
	var all *sdk.FanoutError
	require.ErrorAs(t, err, &all)
	require.Len(t, all.Unwrap(), 2)
	require.Contains(t, err.Error(), "2 of 3 branches failed")
	for _, want := range []string{"inventory.reserve", "payment.charge", "ship", "Unknown", "Completed", "NotSent"} {
		require.Contains(t, err.Error(), want)
	}
	require.NotContains(t, err.Error(), child(ctx, t, "inventory", "reserve").String(), "a key is in the text")

	_, err = charged.Get(ctx)
	require.NoError(t, err)
	_, err = held.Get(ctx)
	require.ErrorIs(t, err, retry.ErrUnknown)
	_, err = ship.Get(ctx)
	require.ErrorIs(t, err, retry.ErrNotSent)
	require.NotErrorIs(t, err, retry.ErrUnknown, "the dependency's outcome is not the dependent's")
	var dependency *sdk.DependencyError
	require.ErrorAs(t, err, &dependency)
	require.Equal(t, "ship", dependency.Branch)
	require.Equal(t, "inventory.reserve", dependency.Dependency)
	require.True(t, sdk.Resumable(err))
}

func TestFanout_panicStaysInItsBranch(t *testing.T) { // not parallel: counts goroutines
	noLeaks(t)
	f := bounded(t, 2, nowhere).Fanout(parent(t, "p"))
	for i := range 10 {
		sdk.AddFunc(f, fmt.Sprintf("b%d", i), func(context.Context) (int, error) {
			switch i {
			case 3:
				panic("boom")
			case 5:
				runtime.Goexit()
			}
			return i, nil
		})
	}
	require.ErrorIs(t, f.Wait(), sdk.ErrPanic)
	results := f.Results()
	require.Len(t, results, 10)
	for i := range 10 {
		r := results[fmt.Sprintf("b%d", i)]
		if i != 3 && i != 5 {
			require.NoError(t, r.Err)
			require.Equal(t, i, r.Value)
			continue
		}
		require.Equal(t, retry.Unknown, r.Outcome)
		var panicked *sdk.PanicError
		require.ErrorAs(t, r.Err, &panicked)
		if i == 3 {
			require.Equal(t, "boom", panicked.Value)
			require.Contains(t, string(panicked.Stack), "TestFanout_panicStaysInItsBranch")
		}
	}
}

func TestFanout_boundsParallelism(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		maxParallel int
		want        int64
	}{
		{"default", 0, sdk.DefaultMaxParallel},
		{"one", 1, 1},
		{"three", 3, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := bounded(t, tt.maxParallel, nowhere).Fanout(parent(t, "p"))
				var running, most atomic.Int64
				for i := range 50 {
					sdk.AddFunc(f, strconv.Itoa(i), func(context.Context) (int, error) {
						if n := running.Add(1); n > most.Load() {
							most.Store(n)
						}
						time.Sleep(time.Second)
						running.Add(-1)
						return 0, nil
					})
				}
				require.NoError(t, f.Wait())
				require.Equal(t, tt.want, most.Load())
			})
		})
	}
}

// With fewer slots than waiting branches: a branch that waits holds none.
func TestFanout_dependenciesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := bounded(t, 1, nowhere).Fanout(parent(t, "p"))
		futures := make([]*sdk.Future[int], 20)
		for i := range futures {
			sdk.AddFunc(f, "dependent"+strconv.Itoa(i), func(ctx context.Context) (int, error) {
				return futures[i].Get(ctx) // given below, before anything starts
			})
		}
		var running, most atomic.Int64
		for i := range futures {
			futures[i] = sdk.AddFunc(f, strconv.Itoa(i), func(ctx context.Context) (int, error) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				if i == 0 {
					return 1, nil
				}
				n, err := futures[i-1].Get(ctx)
				return n + 1, err
			})
		}
		require.NoError(t, f.Wait())
		require.Equal(t, 20, f.Results()["dependent19"].Value)
		require.EqualValues(t, 1, most.Load())
	})
}

func TestFanout_cyclesAreErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := offline(t).Fanout(parent(t, "p"))
		var a, b, c *sdk.Future[int]
		a = sdk.AddFunc(f, "a", func(ctx context.Context) (int, error) { return b.Get(ctx) })
		b = sdk.AddFunc(f, "b", func(ctx context.Context) (int, error) { return c.Get(ctx) })
		c = sdk.AddFunc(f, "c", func(ctx context.Context) (int, error) { return a.Get(ctx) })
		var own *sdk.Future[int]
		own = sdk.AddFunc(f, "own", func(ctx context.Context) (int, error) { return own.Get(ctx) })
		err := f.Wait()
		require.ErrorIs(t, err, sdk.ErrCycle)
		_, err = own.Get(t.Context())
		require.ErrorIs(t, err, sdk.ErrCycle)
	})
}

func TestFanout_neverCancelsSiblings(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(hold{"h"}))
	release := make(chan struct{})
	d.Script("/reservations", sdktest.Hold(release))
	d.Script("/charges", sdktest.Status(402, ""))
	f := newClient(t, d).Fanout(parent(t, "p"))
	held := sdk.Add(f, reserve, lines{})
	charged := sdk.Add(f, pay, amount{1})
	_, err := charged.Get(t.Context())
	require.ErrorIs(t, err, retry.ErrRejected)
	close(release)
	require.Error(t, f.Wait())
	_, err = held.Get(t.Context())
	require.NoError(t, err)
}

func TestFanout_ctxEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(parent(t, "p"), time.Minute, errors.New("closing time"))
		defer cancel()
		f := bounded(t, 1, nowhere).Fanout(ctx)
		for i := range 3 {
			sdk.AddFunc(f, strconv.Itoa(i), func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
		}
		err := f.Wait()
		require.ErrorContains(t, err, "closing time")
		unknown, notSent := 0, 0
		for _, r := range f.Results() {
			switch r.Outcome {
			case retry.Unknown:
				unknown++
			case retry.NotSent:
				notSent++
			default:
				t.Errorf("outcome %v", r.Outcome)
			}
		}
		require.Equal(t, 1, unknown)
		require.Equal(t, 2, notSent)
	})
}

func TestFuture_getEndsWithItsCtx(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := offline(t).Fanout(parent(t, "p"))
		slow := sdk.AddFunc(f, "slow", func(context.Context) (int, error) { time.Sleep(time.Hour); return 7, nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := slow.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, retry.ErrUnknown)
		got, err := slow.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, got)
	})
}

func TestFuture_zero(t *testing.T) {
	t.Parallel()
	var zero sdk.Future[int]
	_, err := zero.Get(t.Context())
	require.ErrorIs(t, err, sdk.ErrBranch)
	var none *sdk.Future[int]
	_, err = none.Get(t.Context())
	require.ErrorIs(t, err, sdk.ErrBranch)
	require.Empty(t, none.Name())
}

func TestFanout_nilInterfaceIsAValue(t *testing.T) {
	t.Parallel()
	f := offline(t).Fanout(parent(t, "p"))
	got, err := sdk.AddFunc(f, "nil", func(context.Context) (error, error) { return nil, nil }).Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, got)
}

func TestFanout_branchesMayNotShareACall(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{}))
	c := bounded(t, 1, d.URL())
	f := c.Fanout(parent(t, "p"))
	mine := sdk.AddFunc(f, "mine", func(ctx context.Context) (charge, error) {
		for range 2 { // one's own again is a repetition
			if _, err := sdk.Call(ctx, c, pay, amount{1}); err != nil {
				return charge{}, err
			}
		}
		return charge{}, nil
	})
	sdk.AddFunc(f, "nested", func(ctx context.Context) (charge, error) {
		if _, err := mine.Get(ctx); err != nil {
			return charge{}, err
		}
		inner := c.Fanout(ctx)
		stolen := sdk.Add(inner, pay, amount{1})
		_ = inner.Wait()
		return stolen.Get(ctx)
	})
	require.ErrorIs(t, f.Wait(), childkey.ErrDuplicateChild)
	require.NoError(t, f.Results()["mine"].Err)
	require.Len(t, d.Requests(), 2)
}

func TestFanout_outcomeOfFunctions(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{}))
	d.Script("/charges", sdktest.Status(402, ""))
	c := newClient(t, d)
	other, err := retry.New(quick) // not the sdk's
	require.NoError(t, err)
	t.Cleanup(other.Close)
	send := func(ctx context.Context, key string, status int) error {
		d.Script("/"+key, sdktest.Status(status, ""))
		_, err := other.Send(ctx, retry.Call{Method: http.MethodPost, URL: d.URL() + "/" + key, Key: childkey.MustParse(key)})
		return err
	}
	list := contract.Post[struct{}, []int]("payment", "list", "/list")
	var outer retry.Calls
	tests := []struct {
		name string
		fn   func(ctx context.Context) (int, error)
		want retry.Outcome
	}{
		{"plain error", func(context.Context) (int, error) { return 0, errors.New("no") }, retry.Unknown},
		{"rejected", func(ctx context.Context) (int, error) { return 0, second(sdk.Call(ctx, c, pay.For("1"), amount{1})) }, retry.Rejected},
		{"wrapped", func(ctx context.Context) (int, error) {
			return 0, fmt.Errorf("charging: %w", second(sdk.Call(ctx, c, pay.For("2"), amount{1})))
		}, retry.Rejected},
		{"rejected after an effect", func(ctx context.Context) (int, error) {
			if _, err := sdk.Call(ctx, c, reserve, lines{}); err != nil {
				return 0, err
			}
			return 0, second(sdk.Call(ctx, c, pay.For("3"), amount{1}))
		}, retry.Unknown},
		{"refused", func(ctx context.Context) (int, error) { return 0, second(sdk.Call(ctx, c, capture, amount{1})) }, retry.NotSent},
		{"rejected after an effect of another client", func(ctx context.Context) (int, error) {
			if err := send(ctx, "1", 200); err != nil {
				return 0, err
			}
			return 0, send(ctx, "2", 402)
		}, retry.Unknown},
		{"rejected after a read", func(ctx context.Context) (int, error) {
			if _, err := c.Send(ctx, sdk.Request{Service: "payment", Operation: "look", Method: http.MethodGet, Path: "/look"}); err != nil {
				return 0, err
			}
			return 0, send(ctx, "3", 402)
		}, retry.Rejected},
		{"not sent after a rejected one", func(ctx context.Context) (int, error) {
			_ = send(ctx, "4", 402)
			return 0, second(sdk.Call(ctx, c, capture, amount{1}))
		}, retry.Rejected},
		{"rejected, and a plain error", func(ctx context.Context) (int, error) {
			return 0, errors.Join(send(ctx, "5", 402), errors.New("no"))
		}, retry.Unknown},
		{"rejected elsewhere", func(context.Context) (int, error) { return 0, send(parent(t, "elsewhere"), "6", 402) }, retry.Unknown},
		{"its own word", func(context.Context) (int, error) {
			return 0, &retry.Error{Outcome: retry.Rejected, Err: errors.New("out of stock")}
		}, retry.Rejected},
		{"its own word after an effect", func(ctx context.Context) (int, error) {
			_ = send(ctx, "7", 200)
			return 0, &retry.Error{Outcome: retry.Rejected, Err: errors.New("out of stock")}
		}, retry.Unknown},
		{"a fan-out of its own", func(ctx context.Context) (int, error) {
			inner := c.Fanout(ctx)
			sdk.AddFunc(inner, "a", func(ctx context.Context) (int, error) { return 0, send(ctx, "8", 402) })
			sdk.AddFunc(inner, "b", func(ctx context.Context) (int, error) { return 0, second(sdk.Call(ctx, c, capture, amount{1})) })
			return 0, inner.Wait()
		}, retry.Rejected},
		{"a fan-out of its own with an effect", func(ctx context.Context) (int, error) {
			inner := c.Fanout(ctx)
			sdk.AddFunc(inner, "a", func(ctx context.Context) (int, error) { return 0, send(ctx, "9", 402) })
			sdk.AddFunc(inner, "b", func(ctx context.Context) (int, error) { return 0, send(ctx, "10", 200) })
			return 0, inner.Wait()
		}, retry.Unknown},
		{"a nil *retry.Error", func(context.Context) (int, error) {
			var none *retry.Error
			return 0, none
		}, retry.Unknown},
		{"an answer that cannot be read", func(ctx context.Context) (int, error) { return 0, second(sdk.Call(ctx, c, list, struct{}{})) }, retry.Unknown},
	}
	f := c.Fanout(outer.Context(parent(t, "p")))
	for _, tt := range tests {
		sdk.AddFunc(f, tt.name, tt.fn)
	}
	require.Error(t, f.Wait())
	require.Equal(t, retry.Completed, outer.Outcome(), "a function around the fan-out knows of the calls, too")
	for _, tt := range tests {
		r := f.Results()[tt.name]
		if r.Outcome != tt.want || outcome(t, r.Err) != tt.want {
			t.Errorf("%s: outcome %v in %v, want %v", tt.name, r.Outcome, r.Err, tt.want)
		}
	}
	// The error must not match the outcome of another call.
	require.NotErrorIs(t, f.Results()["rejected after an effect"].Err, retry.ErrRejected)
}

// A branch whose outcome is not that of its error still shows what its callee answered.
func TestFanout_answerOfAFunction(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, answering(charge{}))
	d.Script("/charges", sdktest.Answer(402, http.Header{"Content-Type": {"application/json"}}, `{"code":"declined","detail":"No funds.","balance":17}`))
	c := newClient(t, d)
	f := c.Fanout(parent(t, "p"))
	sdk.AddFunc(f, "both", func(ctx context.Context) (int, error) {
		if _, err := sdk.Call(ctx, c, reserve, lines{}); err != nil {
			return 0, err
		}
		return 0, second(sdk.Call(ctx, c, pay, amount{1}))
	})
	var failed *retry.Error
	require.ErrorAs(t, f.Wait(), &failed)
	require.Equal(t, retry.Unknown, failed.Outcome, "the reservation stays")
	require.Equal(t, 402, failed.Status)
	require.Equal(t, wire.Code("declined"), failed.Code)
	require.Equal(t, "No funds.", failed.Detail)
	var answer struct{ Balance int }
	require.NoError(t, failed.Decode(&answer))
	require.Equal(t, 17, answer.Balance)
}

// If the caller of a request retries it, each call of the fan-out gets one attempt, whether it is a
// branch or made in a function.
func TestFanout_callerRetries(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	c := newClient(t, d)
	f := c.Fanout(wire.NewContext(parent(t, "p"), wire.Inbound{CallerRetries: true}))
	sdk.Add(f, pay.For("a"), amount{1})
	sdk.AddFunc(f, "two calls", func(ctx context.Context) (int, error) {
		return 0, errors.Join(second(sdk.Call(ctx, c, pay.For("b"), amount{1})), second(sdk.Call(ctx, c, pay.For("c"), amount{1})))
	})
	err := f.Wait()
	require.ErrorIs(t, err, retry.ErrCallerRetries)
	require.True(t, sdk.Resumable(err), "by the caller")
	require.Len(t, d.Requests(), 3)
	for _, r := range d.Requests() {
		require.Equal(t, "0", r.Header.Get(wire.HeaderRetryAllowance), "the services below must not retry either")
	}
}

// One callee may forbid a retry of its own call. The fan-out can still run again while a retry
// can help another branch.
func TestFanoutError_notRetryable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		status    int // of the other
		forbidden bool
		want      bool
	}{
		{"another can be helped", 503, false, false},
		{"another was refused", 400, false, true},
		{"another is not retryable either", 500, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := http.StatusNotFound
				if r.URL.Path == "/reservations" {
					status = tt.status
				}
				if status == http.StatusNotFound || tt.forbidden {
					w.Header().Set(wire.HeaderShouldRetry, "false")
				}
				w.WriteHeader(status)
			}))
			f := newClient(t, d).Fanout(parent(t, "p"))
			sdk.Add(f, pay, amount{1})
			sdk.Add(f, reserve, lines{})
			err := f.Wait()
			require.Equal(t, tt.want, errors.Is(err, wire.ErrNotRetryable))
			require.Equal(t, tt.want, errors.Is(err, retry.ErrNotRetryable))
			require.ErrorIs(t, err, retry.ErrRejected)
			var failed *retry.Error
			require.ErrorAs(t, err, &failed)
		})
	}
}

func TestFanout_startAndLateBranches(t *testing.T) {
	t.Parallel()
	f := offline(t).Fanout(parent(t, "p"))
	one := sdk.AddFunc(f, "one", func(context.Context) (int, error) { return 1, nil })
	f.Start()
	got, err := one.Get(t.Context())
	require.NoError(t, err)
	two := sdk.AddFunc(f, "two", func(context.Context) (int, error) { return got + 1, nil })
	require.NoError(t, f.Wait())
	got, err = two.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, got)
}

func TestBranchNames_areUnique(t *testing.T) {
	t.Parallel()
	f := offline(t).Fanout(parent(t, "p"))
	tuples := [][]string{{"a"}, {"a", "b"}, {"a,b"}, {`"a"`}, {"a]"}, {"\x00"}, {" "}, {"д"}, {"\xd0"}}
	seen := make(map[string]bool)
	for _, tuple := range tuples {
		name := sdk.Add(f, pay.For(tuple...), amount{1}).Name()
		require.False(t, seen[name], "%q twice", name)
		seen[name] = true
	}
	require.True(t, seen["payment.charge[a,b]"])
}

// A branch may wait for a fan-out of its own.
func TestFanout_insideABranch(t *testing.T) {
	t.Parallel()
	c := bounded(t, 1, sdktest.New(t, answering(charge{"c"})).URL())
	outer := c.Fanout(parent(t, "p"))
	sdk.AddFunc(outer, "waits for another", func(ctx context.Context) (int, error) {
		inner := c.Fanout(ctx)
		sdk.Add(inner, pay, amount{1})
		return 0, inner.Wait()
	})
	require.NoError(t, outer.Wait())
}
