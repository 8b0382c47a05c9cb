package examples_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// Every hop has the same operation: it does its part by calling the next one.
var work = contract.Post[int, int]("next", "work", "/work")

// A hop is a guarded service over a real socket.
type hop struct {
	url  string
	hits atomic.Int64 // requests that arrived
}

// startHop starts a service that does do for each key.
func startHop(t *testing.T, do func(context.Context, int) (int, error)) *hop {
	t.Helper()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, work, server.Keyed, do))
	h := &hop{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.hits.Add(1)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, guard.Shutdown(context.Background()))
	})
	h.url = srv.URL
	return h
}

// calling returns what a hop does by calling next.
func calling(t *testing.T, next *hop) func(context.Context, int) (int, error) {
	t.Helper()
	soon := retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond}
	client, err := sdk.New(sdk.Config{
		Retry: retry.Config{MaxAttempts: 4, Backoff: soon, Poll: soon}, Services: map[string]sdk.Service{"next": {URL: next.url}},
	})
	require.NoError(t, err)
	return func(ctx context.Context, in int) (int, error) { return sdk.Call(ctx, client, work, in) }
}

// callThrough makes one call at the root of root, two guarded hops, and a leaf that does do.
func callThrough(t *testing.T, do func(context.Context, int) (int, error)) (first, leaf *hop, err error) {
	t.Helper()
	leaf = startHop(t, do)
	first = startHop(t, calling(t, startHop(t, calling(t, leaf))))
	_, err = calling(t, first)(childkey.NewContext(t.Context(), childkey.MustParse("order-42")), 1)
	return first, leaf, err
}

// Three hops that each may make four attempts: a dead leaf gets four requests, not 64.
func TestHops_deadLeaf(t *testing.T) {
	t.Parallel()
	_, leaf, err := callThrough(t, func(context.Context, int) (int, error) {
		return 0, &server.StatusError{Status: http.StatusServiceUnavailable}
	})
	require.ErrorIs(t, err, retry.ErrUnknown)
	require.EqualValues(t, 4, leaf.hits.Load())
}

// The leaf says that no retry can help. Then no hop above it retries.
func TestHops_notRetryable(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusPaymentRequired, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			first, leaf, err := callThrough(t, func(ctx context.Context, _ int) (int, error) {
				return 0, errors.Join(server.Settle(ctx, server.NotRetryable()), &server.StatusError{Status: status})
			})
			require.ErrorIs(t, err, wire.ErrNotRetryable)
			require.EqualValues(t, 1, leaf.hits.Load())
			require.EqualValues(t, 1, first.hits.Load())
		})
	}
}
