package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// callerRetries returns ctx with an inbound request whose caller retries it.
func callerRetries(ctx context.Context) context.Context {
	return wire.NewContext(ctx, wire.Inbound{CallerRetries: true})
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
		ctx := wire.NewContext(t.Context(), wire.Inbound{Parent: tt.parent})
		_, err := newClient(t, over(rt)).Send(ctx, post(stubURL))
		require.NoError(t, err)
		require.Equal(t, tt.want, rt.header(wire.HeaderParent))
	}
}

// An attempt says that its caller retries, unless nobody does.
func TestSend_callerRetries(t *testing.T) {
	t.Parallel()
	once := func(cfg *retry.Config) { cfg.MaxAttempts = 1 }
	tests := []struct {
		name    string
		ctx     context.Context
		change  func(*retry.Config)
		steps   []step
		want    string // Retry-Allowance, attempt by attempt
		limited bool
	}{
		{"root", t.Context(), nil, []step{status(503)}, "0 0 0 0", false},
		{"root that does not retry", t.Context(), once, []step{status(503)}, "", false},
		{"the caller retries", callerRetries(t.Context()), nil, []step{status(503)}, "0", true},
		{"the caller retries, this client does not", callerRetries(t.Context()), once, []step{status(503)}, "0", false},
		{"the caller does not", wire.NewContext(t.Context(), wire.Inbound{Attempt: 1}), nil, []step{status(503)}, "0 0 0 0", false},
		{"refused before it ran", callerRetries(t.Context()), nil, []step{status(429)}, "0", true},
		{"nothing was sent", callerRetries(t.Context()), nil, []step{fails(errDial)}, "0 0 0 0", false},
		{"nothing was sent at first", callerRetries(t.Context()), nil, []step{fails(errDial), fails(errDial), status(503)}, "0 0 0", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.steps...)
			cfg := over(rt)
			if tt.change != nil {
				tt.change(&cfg)
			}
			failed := failureContext(t, tt.ctx, newClient(t, cfg), post(stubURL))
			require.Equal(t, tt.want, rt.header(wire.HeaderRetryAllowance))
			require.Equal(t, tt.limited, errors.Is(failed, retry.ErrCallerRetries), "%v", failed)
			require.True(t, failed.Retryable, "for the caller")
		})
	}
}

// A call that this client repeats only if nothing was sent leaves the retries below to the callee.
func TestSend_callerRetriesWithoutKey(t *testing.T) {
	t.Parallel()
	rt := script(status(503))
	call := post(stubURL)
	call.Key = childkey.Key{}
	failure(t, newClient(t, over(rt)), call)
	require.Equal(t, 1, rt.count())
	require.Empty(t, rt.header(wire.HeaderRetryAllowance))
}

// The function of Do is told whether the callee should retry.
func TestDo_callerRetries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ctx  context.Context
		key  childkey.Key
		want []bool
	}{
		{t.Context(), key, []bool{true, true, true, true}},
		{t.Context(), childkey.Key{}, []bool{false}},
		{callerRetries(t.Context()), key, []bool{true}},
		{callerRetries(t.Context()), childkey.Key{}, []bool{true}},
	} {
		var told []bool
		_, err := retry.Do(tt.ctx, newClient(t, over(script(status(200)))), retry.Task{Key: tt.key},
			func(_ context.Context, a retry.Attempt) (int, error) {
				told = append(told, a.CallerRetries)
				return 0, errBroken
			}, nil)
		require.Error(t, err)
		require.Equal(t, tt.want, told)
	}
}

// A run in progress may be asked although the caller retries: the callee answers from its record,
// and nothing below multiplies.
func TestSend_pollsWhereTheCallerRetries(t *testing.T) {
	t.Parallel()
	rt := script(problem(wire.InProgress), problem(wire.InProgress), status(200))
	_, err := newClient(t, over(rt)).Send(callerRetries(t.Context()), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, "0 0 0", rt.header(wire.HeaderRetryAllowance))
}

// Three hops that each make up to four attempts: without the header a dead leaf is hit 64 times,
// with it four times.
func TestSend_hopsDoNotMultiply(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		forward bool
		want    int32
	}{
		{"with the header", true, 4},
		{"without the header", false, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var hits atomic.Int32
			leaf, cfg := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) {
				hits.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			cfg.Transport = http.DefaultTransport.(*http.Transport).Clone()
			t.Cleanup(cfg.Transport.(*http.Transport).CloseIdleConnections)
			client := newClient(t, cfg)
			url := hop(t, client, hop(t, client, leaf.URL, tt.forward), tt.forward)
			failure(t, client, post(url))
			require.Equal(t, tt.want, hits.Load())
		})
	}
}

// hop serves a service that calls next, as a guarded handler would.
func hop(t *testing.T, client *retry.Client, next string, forward bool) string {
	srv, _ := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		ctx := r.Context()
		if forward {
			ctx = wire.NewContext(ctx, wire.ParseInbound(r.Header.Values))
		}
		if _, err := client.Send(ctx, post(next)); err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	return srv.URL
}
