package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

func inbound(ctx context.Context, allowance int) context.Context {
	return wire.NewContext(ctx, wire.Inbound{Allowance: allowance})
}

// Every attempt of a call that is made in a run names the record of the run. A call outside names none.
func TestSend_parent(t *testing.T) {
	t.Parallel()
	const none, record = "", "01020000-0000-0000-0000-000000000000"
	for _, tt := range []struct {
		parent [16]byte
		want   string
	}{
		{[16]byte{1, 2}, record + " " + record},
		{[16]byte{}, none + " " + none},
	} {
		rt := script(status(503), status(200))
		ctx := wire.NewContext(t.Context(), wire.Inbound{Parent: tt.parent, Allowance: 3})
		_, err := newClient(t, over(rt)).Send(ctx, post(stubURL))
		require.NoError(t, err)
		require.Equal(t, tt.want, rt.header(wire.HeaderParent))
	}
}

func TestSend_allowance(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		inbound   int // -2: no inbound request
		allowance int // of the config
		max       int
		step      step
		want      string // Retry-Allowance, attempt by attempt
	}{
		{"root", -2, 0, 0, status(503), "0 0 0 0"},
		{"root with more to give", -2, 15, 0, status(503), "3 3 3 3"},
		{"root that does not retry", -2, 0, 1, status(503), "3"},
		{"what is not divisible goes to the last", -2, 4, 0, status(503), "0 0 0 1"},
		{"inbound says none", -1, 0, 0, status(503), "0 0 0 0"},
		{"inbound allows none", 0, 15, 0, status(503), "0"},
		{"inbound allows one", 1, 15, 0, status(503), "0 0"},
		{"inbound allows more than attempts", 7, 0, 0, status(503), "1 1 1 1"},
		{"what was not sent was not used", -2, 0, 0, fails(errDial), "0 0 1 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.step)
			cfg := over(rt)
			cfg.Allowance = tt.allowance
			if tt.max != 0 {
				cfg.MaxAttempts = tt.max
			}
			ctx := t.Context()
			if tt.inbound > -2 {
				ctx = inbound(ctx, tt.inbound)
			}
			failed := failureContext(t, ctx, newClient(t, cfg), post(stubURL))
			require.Equal(t, tt.want, rt.header(wire.HeaderRetryAllowance))
			limited := tt.inbound == 0 || tt.inbound == 1
			require.Equal(t, limited, errors.Is(failed, retry.ErrAllowance), "%v", failed)
		})
	}
}

// The calls of one request draw on one allowance, however many they are, and whether they come
// one after the other or together. An allowance that an attempt passed down is gone, used or not:
// its use is not reported.
func TestSend_allowanceOfTheRequest(t *testing.T) {
	t.Parallel()
	const calls, allowance = 5, 3
	t.Run("in turn", func(t *testing.T) {
		t.Parallel()
		rt, ctx := script(status(503)), inbound(t.Context(), allowance)
		c := newClient(t, over(rt))
		for range calls {
			failureContext(t, ctx, c, post(stubURL))
		}
		require.Equal(t, calls+allowance, rt.count())
		require.ErrorIs(t, failureContext(t, ctx, c, post(stubURL)), retry.ErrAllowance)
	})
	t.Run("together", func(t *testing.T) {
		t.Parallel()
		rt, ctx := script(status(503)), inbound(t.Context(), allowance)
		c := newClient(t, over(rt))
		var all sync.WaitGroup
		for range calls {
			all.Go(func() { failureContext(t, ctx, c, post(stubURL)) })
		}
		all.Wait()
		require.Equal(t, calls+allowance, rt.count())
	})
	t.Run("other calls", func(t *testing.T) {
		t.Parallel()
		made, ctx := 0, inbound(t.Context(), allowance)
		c := newClient(t, over(script(status(200))))
		for range calls {
			_, err := c.Send(ctx, post(stubURL)) // it needs none
			require.NoError(t, err)
			_, err = retry.Do(ctx, c, retry.Task{Key: key}, func(context.Context, retry.Attempt) (int, error) {
				made++
				return 0, errBroken
			}, nil)
			require.Error(t, err)
		}
		require.Equal(t, calls+allowance, made)
	})
	t.Run("what is below counts", func(t *testing.T) {
		t.Parallel()
		rt, ctx := script(status(503)), inbound(t.Context(), 7)
		c := newClient(t, over(rt))
		failureContext(t, ctx, c, post(stubURL))
		failureContext(t, ctx, c, post(stubURL))
		require.Equal(t, "1 1 1 1 0", rt.header(wire.HeaderRetryAllowance))
	})
	t.Run("the root has none to share", func(t *testing.T) {
		t.Parallel()
		rt := script(status(503))
		c := newClient(t, over(rt))
		for range calls {
			failure(t, c, post(stubURL))
		}
		require.Equal(t, calls*(1+allowance), rt.count())
	})
}

// The first attempt of a call that is sent costs nothing, and what was not sent costs
// nothing either; nor is there more afterwards than before.
func TestSend_allowanceOfWhatWasNotSent(t *testing.T) {
	t.Parallel()
	left := func(ctx context.Context) int { in, _ := wire.FromContext(ctx); return in.Allowance }
	for _, allowance := range []int{0, 2} {
		ctx := inbound(t.Context(), allowance)
		for range 5 {
			failureContext(t, ctx, newClient(t, over(script(fails(errDial)))), post(stubURL))
			require.Equal(t, allowance, left(ctx))
		}
		rt := script(fails(errDial), status(503))
		failureContext(t, ctx, newClient(t, over(rt)), post(stubURL))
		require.Equal(t, 2+allowance, rt.count(), "one was not sent")
		require.Zero(t, left(ctx))
	}
}

// A retry whose wait is broken off was not made.
func TestSend_allowanceOfWhatIsBrokenOff(t *testing.T) {
	t.Parallel()
	budget := &retry.Budget{Refill: 1e-9}
	rt := script(status(503, wire.HeaderRetryAfter+": 10"))
	bubble(t, rt, func(cfg *retry.Config) { cfg.Budget = budget }, func(t *testing.T, c *retry.Client) {
		request, before := inbound(t.Context(), 3), budget.Left("payment", time.Now())
		for range 3 {
			ctx, cancel := context.WithCancel(request)
			time.AfterFunc(time.Second, cancel)
			failed := failureContext(t, ctx, c, post(stubURL))
			require.ErrorIs(t, failed, context.Canceled)
			require.Equal(t, 1, failed.Attempts)
		}
		require.InDelta(t, before, budget.Left("payment", time.Now()), 1e-6)
		in, _ := wire.FromContext(request)
		require.Equal(t, 3, in.Allowance)
	})
}

// A run in progress may be asked although no retry is allowed: the callee
// answers from its record, and nothing below multiplies.
func TestSend_pollsSpendNoAllowance(t *testing.T) {
	t.Parallel()
	rt := script(problem(wire.InProgress), problem(wire.InProgress), status(200))
	_, err := newClient(t, over(rt)).Send(inbound(t.Context(), 0), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, "0 0 0", rt.header(wire.HeaderRetryAllowance))
}

// Three hops that each make up to four attempts: without the header a dead leaf
// is hit 64 times, with it once and as often as the allowance says.
func TestSend_hopsDoNotMultiply(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		allowance int
		forward   bool
		want      int32
	}{
		{"default", 0, true, 4},
		{"generous", 15, true, 16},
		{"without the header", 0, false, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var hits atomic.Int32
			leaf, cfg := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) {
				hits.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			cfg.Allowance = tt.allowance
			cfg.Transport = http.DefaultTransport.(*http.Transport).Clone()
			t.Cleanup(cfg.Transport.(*http.Transport).CloseIdleConnections)
			client := newClient(t, cfg)
			url := hop(t, client, hop(t, client, leaf.URL, tt.forward), tt.forward)
			failure(t, client, post(url))
			if tt.forward {
				require.LessOrEqual(t, hits.Load(), tt.want)
			} else {
				require.Equal(t, tt.want, hits.Load())
			}
			require.Positive(t, hits.Load())
		})
	}
}

// hop serves a service that calls next, as a guarded handler would.
func hop(t *testing.T, client *retry.Client, next string, forward bool) string {
	srv, _ := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		ctx := r.Context()
		if forward {
			ctx = inbound(ctx, wire.ParseInbound(r.Header.Values).Allowance)
		}
		if _, err := client.Send(ctx, post(next)); err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	return srv.URL
}
