package retry_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// TestSend_proxyAnswers has a proxy answer instead of a guarded service.
func TestSend_proxyAnswers(t *testing.T) {
	t.Parallel()
	guarded := under(retry.Fanonce(), quick)
	unguarded := under(retry.Unguarded(), quick)
	mark := http.Header{wire.HeaderReplayed: {"false"}}
	for _, tt := range []struct {
		name    string
		cfg     retry.Config
		method  string
		header  http.Header
		body    string
		maximum int64
		want    retry.Outcome
	}{
		{"a page to sign in", guarded, "POST", nil, "<html>", 0, retry.Unknown},
		{"an object", guarded, "PUT", nil, `{"error":"login"}`, 0, retry.Unknown},
		{"nothing", guarded, "DELETE", nil, "", 0, retry.Unknown},
		{"a mark that is no flag", guarded, "POST", http.Header{wire.HeaderReplayed: {"yes"}}, "{}", 0, retry.Unknown},
		{"a page longer than is read", guarded, "POST", nil, "<html></html>", 5, retry.Unknown},
		{"the guard", guarded, "POST", mark, "{}", 0, retry.Completed},
		{"the guard, longer than is read", guarded, "POST", mark, "{ }    ", 5, retry.Completed},
		{"the guard's repetition", guarded, "POST", http.Header{wire.HeaderReplayed: {"true"}}, "{}", 0, retry.Completed},
		{"a safe method", guarded, "GET", nil, "{}", 0, retry.Completed},
		{"no guard, by the profile", unguarded, "POST", nil, "{}", 0, retry.Completed},
		{"Stripe's first answer", under(retry.Stripe(), quick), "POST", nil, "{}", 0, retry.Completed},
		{"Adyen", under(retry.Adyen(), quick), "POST", nil, "{}", 0, retry.Completed},
		{"no profile", under(nil, quick), "POST", nil, "{}", 0, retry.Completed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			srv, cfg := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				for name, values := range tt.header {
					w.Header()[name] = values
				}
				_, _ = io.WriteString(w, tt.body)
			})
			tt.cfg.Transport, tt.cfg.MaxResponseBytes = cfg.Transport, tt.maximum
			call := post(srv.URL)
			if call.Method = tt.method; tt.method == "GET" {
				call.Body = nil
			}
			client := newClient(t, tt.cfg)
			_, err := client.Send(t.Context(), call)
			if tt.want == retry.Completed {
				require.Truef(t, err == nil || errors.Is(err, retry.ErrCompleted), "%v", err)
			} else {
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, tt.want, failed.Outcome)
				require.ErrorIs(t, err, retry.ErrUnmarked)
				require.ErrorContains(t, err, "retry.Unguarded()")
				require.True(t, failed.Retryable, "when the proxy lets it pass")
			}
			require.EqualValues(t, 1, requests.Load(), "the call is not sent again by itself")
		})
	}
}

// TestRoundTripper_handsOnUnmarked shows that a round tripper keeps the contract of net/http,
// and that Do does not let the answer pass for the service's.
func TestRoundTripper_handsOnUnmarked(t *testing.T) {
	t.Parallel()
	srv, cfg := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	client := newClient(t, under(retry.Fanonce(), cfg))
	for _, key := range []string{"k", ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("x"))
		require.NoError(t, err)
		if key != "" {
			req.Header.Set(wire.HeaderKey, key)
		}
		resp, err := client.RoundTripper().RoundTrip(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "<html>", string(body))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("x"))
	require.NoError(t, err)
	req.Header.Set(wire.HeaderKey, "k")
	resp, err := client.Do(req)
	if resp != nil {
		_ = resp.Body.Close()
	}
	require.ErrorIs(t, err, retry.ErrUnmarked)
}

// TestSend_warnsOnceOfUnmarked reads the remedy in the log.
func TestSend_warnsOnceOfUnmarked(t *testing.T) {
	t.Parallel()
	srv, cfg := serve(t, plain, func(http.ResponseWriter, *http.Request) {})
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	client := newClient(t, under(retry.Fanonce(), cfg))
	for _, service := range []string{"a", "b", "a", "b", "a"} {
		call := post(srv.URL)
		call.Service = service
		require.Equal(t, retry.Unknown, failure(t, client, call).Outcome)
	}
	require.Equal(t, 2, strings.Count(log.String(), "does not come from the service's guard"))
	require.Contains(t, log.String(), "retry.Unguarded()")
}

// TestSend_proxyAnswersLater has a proxy answer after an attempt whose answer was lost, and
// then the guard.
func TestSend_proxyAnswersLater(t *testing.T) {
	t.Parallel()
	for _, status := range []int{302, 303, 307, 400, 401, 403, 404, 405, 409, 410, 422, 423, 429, 500, 501, 502, 505, 511} {
		for _, later := range []bool{false, true} {
			t.Run(strconv.Itoa(status)+" for ever: "+strconv.FormatBool(later), func(t *testing.T) {
				t.Parallel()
				var requests atomic.Int32
				srv, cfg := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) {
					switch n := requests.Add(1); {
					case n == 1:
						panic(http.ErrAbortHandler) // it took effect
					case n < 4 || later:
						w.WriteHeader(status)
					default:
						w.Header().Set(wire.HeaderReplayed, "true")
					}
				})
				resp, err := newClient(t, under(retry.Fanonce(), cfg)).Send(t.Context(), post(srv.URL))
				if !later {
					require.NoError(t, err)
					require.True(t, resp.Replayed)
					return
				}
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, retry.Unknown, failed.Outcome)
				require.Equal(t, 4, failed.Attempts)
				require.True(t, failed.Retryable)
			})
		}
	}
}

// TestSend_proxyAnswersFirst shows the limit: with no attempt before it, a refusal without
// the mark counts as one by the service's door.
func TestSend_proxyAnswersFirst(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 405, 410, 422} {
		srv, cfg := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		failed := failure(t, newClient(t, under(retry.Fanonce(), cfg)), post(srv.URL))
		require.Equal(t, retry.Rejected, failed.Outcome, status)
		require.Equal(t, 1, failed.Attempts, status)
	}
}
