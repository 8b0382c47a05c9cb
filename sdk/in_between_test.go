package sdk_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A proxy stands between a client and a guarded service. It answers each request itself where answer is not nil.
type proxy struct {
	url  string
	runs atomic.Int64 // of the handler
	sent atomic.Int64
}

func newProxy(t *testing.T, answer func(sent int64, w http.ResponseWriter, r *http.Request, service http.Handler)) *proxy {
	t.Helper()
	p := new(proxy)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, pay, server.Keyed, func(context.Context, amount) (charge, error) {
		p.runs.Add(1)
		return charge{"7"}, nil
	}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(p.sent.Add(1), w, r, mux) }))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *proxy) client(t *testing.T, profile *retry.Profile) *sdk.Client {
	t.Helper()
	c, err := sdk.New(sdk.Config{Retry: quick, Services: map[string]sdk.Service{"payment": {URL: p.url, Profile: profile}}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A 2xx that no guard made is not the service's word, whatever it looks like. The call is not sent again by itself, and
// the same code reaches the service when the page is gone.
func TestCall_successInBetween(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"a page to sign in", "text/html; charset=utf-8", "<!DOCTYPE html><title>Sign in</title>", 200},
		{"an error in JSON", "application/json", `{"error":"login"}`, 200},
		{"what looks like the output", "application/json", `{"ID":"7"}`, 201},
		{"nothing", "", "", 204},
		{"accepted", "text/plain", "ok", 202},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var gone atomic.Bool
			p := newProxy(t, func(_ int64, w http.ResponseWriter, r *http.Request, service http.Handler) {
				if gone.Load() {
					service.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			c := p.client(t, nil)
			got, err := sdk.Call(parent(t, "p"), c, pay, amount{1})
			require.ErrorIs(t, err, retry.ErrUnknown)
			require.ErrorIs(t, err, retry.ErrUnmarked)
			require.ErrorContains(t, err, "retry.Unguarded()", "the remedy, if the service has no guard")
			require.Zero(t, got)
			require.True(t, sdk.Resumable(err))
			require.EqualValues(t, 1, p.sent.Load(), "not sent again by itself")
			require.Zero(t, p.runs.Load())

			gone.Store(true)
			got, err = sdk.Call(parent(t, "p"), c, pay, amount{1})
			require.NoError(t, err)
			require.Equal(t, charge{"7"}, got)
			require.EqualValues(t, 1, p.runs.Load())
		})
	}
}

// If a gateway takes the mark away, every success is unknown. The profile for services without a guard helps there.
func TestCall_markTakenAway(t *testing.T) {
	t.Parallel()
	p := newProxy(t, func(_ int64, w http.ResponseWriter, r *http.Request, service http.Handler) {
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, r)
		answer.Header().Del(wire.HeaderReplayed)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
	_, err := sdk.Call(parent(t, "p"), p.client(t, nil), pay, amount{1})
	require.ErrorIs(t, err, retry.ErrUnmarked)
	got, err := sdk.Call(parent(t, "p"), p.client(t, retry.Unguarded()), pay, amount{1})
	require.NoError(t, err)
	require.Equal(t, charge{"7"}, got)
	require.EqualValues(t, 1, p.runs.Load())
}

// A transport hands every answer through as it is. It notes the call as Unknown, because the mark is missing.
func TestRoundTripper_successInBetween(t *testing.T) {
	t.Parallel()
	p := newProxy(t, func(_ int64, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = io.WriteString(w, "sign in")
	})
	var calls retry.Calls
	req, err := http.NewRequestWithContext(calls.Context(parent(t, "p")), http.MethodPost, p.url+"/charges", http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: p.client(t, nil).RoundTripper("payment")}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, []any{200, "sign in"}, []any{resp.StatusCode, string(body)})
	require.Equal(t, retry.Unknown, calls.Outcome())
}

// An ingress without a backend answers while an earlier attempt may have had its effect. That refusal is not final.
func TestCall_refusalInBetween(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 405, 410, 501} {
		p := newProxy(t, func(sent int64, w http.ResponseWriter, r *http.Request, service http.Handler) {
			switch sent {
			case 1:
				service.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler) // the answer is lost
			case 2:
				w.WriteHeader(status)
			default:
				service.ServeHTTP(w, r)
			}
		})
		got, err := sdk.Call(parent(t, "p"), p.client(t, nil), pay, amount{1})
		require.NoError(t, err, status)
		require.Equal(t, charge{"7"}, got)
		require.EqualValues(t, 1, p.runs.Load())
	}
}

// On a first attempt a refusal without a mark is taken at its word: a limiter, a mux or an authenticator in front of the
// guard refused the call. After an earlier attempt it stays Unknown to the end.
func TestCall_refusalWithoutAMark(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		p := newProxy(t, func(sent int64, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			if lost && sent == 1 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusNotFound)
		})
		_, err := sdk.Call(parent(t, "p"), p.client(t, nil), pay, amount{1})
		want, sent := retry.ErrRejected, 1
		if lost {
			want, sent = retry.ErrUnknown, 4
		}
		require.ErrorIs(t, err, want)
		require.EqualValues(t, sent, p.sent.Load(), "with all attempts of the client")
	}
}

// A handler that releases its key with a refusal speaks for its own attempt alone: one that was under way still runs.
func TestCall_releasedRefusal(t *testing.T) {
	t.Parallel()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	require.NoError(t, err)
	var sent, charges atomic.Int64
	var late func()
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, pay, server.Keyed, func(ctx context.Context, _ amount) (charge, error) {
		if sent.Load() == 2 {
			_ = server.Settle(ctx, server.Release())
			return charge{}, &server.StatusError{Status: http.StatusNotFound}
		}
		charges.Add(1)
		return charge{"7"}, nil
	}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent.Add(1) == 1 {
			body, _ := io.ReadAll(r.Body)
			r = r.Clone(context.WithoutCancel(r.Context()))
			r.Body = io.NopCloser(bytes.NewReader(body))
			late = func() { sent.Add(1); mux.ServeHTTP(httptest.NewRecorder(), r) }
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c := (&proxy{url: srv.URL}).client(t, nil)
	_, err = sdk.Call(parent(t, "p"), c, pay, amount{1})
	late()
	require.EqualValues(t, 1, charges.Load())
	require.ErrorIs(t, err, retry.ErrUnknown, "it has taken effect")
}
