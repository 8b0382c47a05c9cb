package retry_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// A transport learns the same of its time, in whatever order and whenever it asks.
func TestSend_attemptEndsHoweverItIsAsked(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		ask  func(context.Context) error
	}{
		{"Err", context.Context.Err},
		{"Cause", func(ctx context.Context) error { context.Cause(ctx); return ctx.Err() }},
		{"Done", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		{"Value", func(ctx context.Context) error { ctx.Value("k"); return ctx.Err() }},
		{"a context derived from it", func(ctx context.Context) error {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			<-derived.Done()
			return derived.Err()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := over(roundTrip(func(req *http.Request) (*http.Response, error) {
					time.Sleep(2 * time.Second)
					require.ErrorIs(t, tt.ask(req.Context()), context.DeadlineExceeded)
					require.ErrorIs(t, context.Cause(req.Context()), retry.ErrAttemptTimeout)
					return nil, errBroken
				}))
				cfg.AttemptTimeout, cfg.MaxAttempts = time.Second, 1
				failed := failure(t, newClient(t, cfg), post(stubURL))
				require.ErrorIs(t, failed, retry.ErrAttemptTimeout)
				require.ErrorIs(t, failed, errBroken)
			})
		})
	}
}

// The error of a transport that never looked at the time says that it was up.
func TestSend_blamesTheTimeThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		took     time.Duration
		timedOut bool
	}{
		{"in time", time.Second - 1, false},
		{"too late", time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := over(roundTrip(func(*http.Request) (*http.Response, error) {
					time.Sleep(tt.took)
					return nil, errBroken
				}))
				cfg.AttemptTimeout, cfg.MaxAttempts = time.Second, 1
				failed := failure(t, newClient(t, cfg), post(stubURL))
				require.ErrorIs(t, failed, errBroken)
				if tt.timedOut {
					require.ErrorIs(t, failed, retry.ErrAttemptTimeout)
				} else {
					require.NotErrorIs(t, failed, retry.ErrAttemptTimeout)
				}
			})
		})
	}
}

func TestSend_attemptContextHasDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ends []time.Duration
		start := time.Now()
		cfg := over(roundTrip(func(req *http.Request) (*http.Response, error) {
			at, ok := req.Context().Deadline()
			require.True(t, ok)
			ends = append(ends, at.Sub(start))
			time.Sleep(2 * time.Second)
			return nil, errBroken
		}))
		cfg.AttemptTimeout, cfg.Timeout, cfg.MaxAttempts = 3*time.Second, 4500*ms, 2
		cfg.Rand = exact
		failure(t, newClient(t, cfg), post(stubURL))
		second := 4500 * ms // the call's, which is less than the attempt's
		require.Equal(t, []time.Duration{3 * time.Second, second}, ends)
	})
}

// A transport that keeps a request for longer than it may finds its context ended,
// whether it had asked before or not, and with the caller's values.
func TestSend_requestEndsWithItsHop(t *testing.T) {
	t.Parallel()
	type name struct{}
	for _, asked := range []bool{false, true} {
		var kept []*http.Request
		cfg := over(roundTrip(func(req *http.Request) (*http.Response, error) {
			if asked {
				require.NoError(t, req.Context().Err())
			}
			for _, earlier := range kept {
				require.ErrorIs(t, earlier.Context().Err(), context.Canceled)
			}
			kept = append(kept, req)
			if len(kept) < 3 {
				return nil, errBroken
			}
			return status(200)(req)
		}))
		ctx := context.WithValue(t.Context(), name{}, "caller's")
		_, err := newClient(t, cfg).Send(ctx, post(stubURL))
		require.NoError(t, err)
		require.Len(t, kept, 3)
		for _, req := range kept {
			<-req.Context().Done()
			require.ErrorIs(t, req.Context().Err(), context.Canceled)
			require.Equal(t, "caller's", req.Context().Value(name{}))
		}
	}
}

// The caller's own trace hears of the requests too.
func TestSend_keepsTheCallersTrace(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, p protocol) {
		srv, cfg := serve(t, p, func(_ http.ResponseWriter, r *http.Request) { drain(r) })
		var got atomic.Bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { got.Store(true) }, // before RoundTrip returns, for each protocol
		})
		_, err := newClient(t, cfg).Send(ctx, post(srv.URL))
		require.NoError(t, err)
		require.True(t, got.Load())
	})
}
