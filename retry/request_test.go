package retry_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

func request(t *testing.T, method, url, body string) (*http.Request, *atomic.Int32) {
	var closed atomic.Int32
	req, err := http.NewRequestWithContext(t.Context(), method, url, closeCounter{strings.NewReader(body), &closed})
	require.NoError(t, err)
	return req, &closed
}

func TestDo_standardRequest(t *testing.T) {
	t.Parallel()
	rt := script(status(503), answer(201, "made", "X-Kind: test"))
	req, closed := request(t, http.MethodPost, stubURL, "body")
	req.Header.Set(wire.HeaderKey, "bare-key") // bare or quoted: sent quoted
	req.Host = "virtual.test"
	before := req.Header.Clone()
	resp, err := newClient(t, over(rt)).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "made", string(body))
	require.Equal(t, 201, resp.StatusCode)
	require.EqualValues(t, 4, resp.ContentLength)
	require.Equal(t, "test", resp.Header.Get("X-Kind"))
	require.Same(t, req, resp.Request)
	require.Equal(t, before, req.Header, "the request is not changed")
	require.EqualValues(t, 1, closed.Load(), "its body is closed")
	require.Equal(t, `"bare-key" "bare-key"`, rt.header(wire.HeaderKey))
	require.Equal(t, []string{"body", "body"}, rt.bodies)
	require.Equal(t, "virtual.test", rt.requests[0].Host)
}

func TestDo_standardAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		step   step
		status int // 0: an error
	}{
		{"not found", answer(404, "no"), 404},
		{"key reused", problem(wire.KeyReused), 422},
		{"gone", problem(wire.ResponseGone), 410},
		{"unavailable after every attempt", status(503), 0},
		{"lost", fails(errBroken), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req, closed := request(t, http.MethodPost, stubURL, "body")
			req.Header.Set(wire.HeaderKey, `"k"`)
			resp, err := newClient(t, over(script(tt.step))).Do(req)
			require.EqualValues(t, 1, closed.Load())
			if tt.status == 0 {
				require.ErrorIs(t, err, retry.ErrUnknown)
				require.Nil(t, resp)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.status, resp.StatusCode)
			resp.Body.Close()
		})
	}
}

func TestDo_standardBadInput(t *testing.T) {
	t.Parallel()
	rt := script(status(200))
	c := newClient(t, over(rt))
	for name, change := range map[string]func(*http.Request){
		"two keys":   func(r *http.Request) { r.Header[wire.HeaderKey] = []string{"a", "b"} },
		"bad key":    func(r *http.Request) { r.Header.Set(wire.HeaderKey, `"a`) },
		"cancels":    func(r *http.Request) { r.Header.Set(wire.HeaderCancels, "a b") },
		"first sent": func(r *http.Request) { r.Header.Set(wire.HeaderFirstSent, "yesterday") },
		"no URL":     func(r *http.Request) { r.URL = nil },
		"host":       func(r *http.Request) { r.Host = "a b" },
		"upgrade":    func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"body":       func(r *http.Request) { r.Body = io.NopCloser(&failingReader{}) },
		"short body": func(r *http.Request) { r.ContentLength = 5 },
		"long body":  func(r *http.Request) { r.ContentLength = 3 },
		"trailer":    func(r *http.Request) { r.Trailer = http.Header{"X-Sum": {"1"}} },
	} {
		req, _ := request(t, http.MethodPost, stubURL, "body")
		change(req)
		_, err := c.Do(req) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, retry.ErrInvalid, name)
		require.ErrorIs(t, err, retry.ErrNotSent, name)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.NotEmpty(t, failed.Evidence, name)
	}
	require.Zero(t, rt.count())
}

func TestRoundTripper_inHTTPClient(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	srv, cfg := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
		switch hits.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		default:
			io.Copy(w, r.Body)
		}
	})
	client := &http.Client{Transport: newClient(t, cfg).RoundTripper()}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, strings.NewReader("body"))
	require.NoError(t, err)
	req.Header.Set(wire.HeaderKey, `"k"`)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
	require.EqualValues(t, 3, hits.Load())
	require.Equal(t, "/there", resp.Request.URL.Path)
}

// The contract of http.RoundTripper has three parts. An answer of any status is not an error. The
// request stays unchanged, and its body is closed. The answer's body is complete, or its reader
// returns an error.
func TestRoundTripper_contract(t *testing.T) {
	t.Parallel()
	page := strings.Repeat("page ", 40<<10)
	tests := []struct {
		name   string
		step   step
		status int // 0: an error
		body   string
	}{
		{"done", answer(200, "done"), 200, "done"},
		{"no content", status(204), 204, ""},
		{"redirect", status(307, "Location: /there"), 307, ""},
		{"not found, at length", answer(404, page), 404, page},
		{"conflict", status(409), 409, ""},
		{"key reused", problem(wire.KeyReused), 422, ""},
		{"turned away after every attempt", answer(429, "later"), 429, "later"},
		{"failed after every attempt, at length", answer(500, page), 500, page},
		{"not retryable", status(503, wire.HeaderShouldRetry+": false"), 503, ""},
		{"still in progress", problem(wire.InProgress), 409, ""},
		{"an unheard-of status", status(599), 599, ""},
		{"lost", fails(errBroken), 0, ""},
		{"neither answer nor error", func(*http.Request) (*http.Response, error) { return nil, nil }, 0, ""},
	}
	for _, tt := range tests {
		for _, keyed := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, ", keyed ", keyed), func(t *testing.T) {
				t.Parallel()
				req, closed := request(t, http.MethodPost, stubURL, "body")
				req.Header.Set("X-Trace", "a")
				if keyed {
					req.Header.Set(wire.HeaderKey, `"k"`)
				}
				before, url := req.Clone(t.Context()), *req.URL
				resp, err := newClient(t, over(script(tt.step))).RoundTripper().RoundTrip(req)
				require.EqualValues(t, 1, closed.Load())
				require.Equal(t, before.Header, req.Header)
				require.Equal(t, url, *req.URL)
				require.Equal(t, before.Host, req.Host)
				if tt.status == 0 {
					require.Error(t, err)
					require.Nil(t, resp)
					return
				}
				require.NoError(t, err)
				defer resp.Body.Close()
				require.Equal(t, tt.status, resp.StatusCode)
				require.Same(t, req, resp.Request)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				if tt.body != "" {
					require.Equal(t, tt.body, string(body))
				}
				require.EqualValues(t, len(body), resp.ContentLength)
			})
		}
	}
}

// The part that is read of a body that is too long does not look as if it were whole. It is
// classified by 64 KiB at least.
func TestRoundTripper_tooLong(t *testing.T) {
	t.Parallel()
	page := strings.Repeat("page ", 20<<10)
	for _, tt := range []struct {
		status, read int
		outcome      retry.Outcome
	}{{200, 4, retry.Completed}, {404, 64 << 10, retry.Rejected}} {
		cfg := over(script(answer(tt.status, page)))
		cfg.MaxResponseBytes = 4
		req, _ := request(t, http.MethodPost, stubURL, "body")
		req.Header.Set(wire.HeaderKey, `"k"`)
		resp, err := newClient(t, cfg).RoundTripper().RoundTrip(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.ErrorIs(t, err, retry.ErrResponseTooLarge)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, tt.outcome, failed.Outcome)
		require.Equal(t, tt.status, failed.Status)
		require.Equal(t, page[:tt.read], string(body))
		require.Equal(t, tt.status, resp.StatusCode)
	}
	rt := script(problem(wire.InProgress), answer(200, "done"))
	cfg := over(rt)
	cfg.MaxResponseBytes = 16 // less than the problem takes
	req, _ := request(t, http.MethodPost, stubURL, "body")
	req.Header.Set(wire.HeaderKey, `"k"`)
	resp, err := newClient(t, cfg).Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
}

// An error that is kept does not keep a long page.
func TestDo_errorIsSmall(t *testing.T) {
	t.Parallel()
	req, _ := request(t, http.MethodPost, stubURL, "body")
	req.Header.Set(wire.HeaderKey, `"k"`)
	_, err := newClient(t, over(script(answer(503, strings.Repeat("page ", 1<<20))))).Do(req) //nolint:bodyclose // there is none
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Body, 64<<10)
	require.Less(t, cap(failed.Body), 128<<10)
}

// A key goes to nobody but who it was meant for, though an http.Client would follow.
func TestRoundTripper_keyStaysAtItsOrigin(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	other, _ := serve(t, plain, func(http.ResponseWriter, *http.Request) { seen.Add(1) })
	srv, cfg := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
			return
		}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	client := &http.Client{Transport: newClient(t, cfg).RoundTripper()}
	for _, header := range []string{wire.HeaderKey, wire.HeaderCancels, "X-Other"} {
		seen.Store(0)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/", strings.NewReader("secret"))
		require.NoError(t, err)
		req.Header.Set(header, `"k"`)
		resp, err := client.Do(req)
		if header == "X-Other" {
			require.NoError(t, err)
			resp.Body.Close()
			require.EqualValues(t, 1, seen.Load())
			continue
		}
		require.ErrorIs(t, err, retry.ErrInvalid)
		require.ErrorIs(t, err, retry.ErrUnknown, "the first of them had it")
		require.Zero(t, seen.Load())
	}
}

// A request that cannot be sent is heard of as any other call is.
func TestDo_badInputIsObserved(t *testing.T) {
	t.Parallel()
	var heard recorder
	cfg := over(script(status(200)))
	cfg.Observer = &heard
	req, _ := request(t, http.MethodPost, stubURL, "body")
	req.Header.Set(wire.HeaderKey, `"a`)
	_, err := newClient(t, cfg).Do(req) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, retry.ErrInvalid)
	require.Len(t, heard.calls, 1)
	require.Equal(t, retry.NotSent, heard.calls[0].Outcome)
	require.Equal(t, "payment.test", heard.calls[0].Service)
	require.ErrorIs(t, heard.calls[0].Err, retry.ErrInvalid)
}

func TestDo_head(t *testing.T) {
	t.Parallel()
	srv, cfg := serve(t, plain, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "42") })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, srv.URL, nil)
	require.NoError(t, err)
	resp, err := newClient(t, cfg).Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.EqualValues(t, 42, resp.ContentLength)
}

// Every callee has a budget of its own, also where nobody names it.
func TestDo_budgetPerHost(t *testing.T) {
	t.Parallel()
	rt := script(status(503))
	cfg := over(rt)
	cfg.Budget = &retry.Budget{Reserve: 1, Refill: 1e-9}
	client := newClient(t, cfg)
	for _, tt := range []struct {
		url  string
		hits int
	}{
		{"http://a.test/x", 2}, // one retry, and the budget is spent
		{"http://a.test/y", 1},
		{"http://b.test/x", 2},
	} {
		before := rt.count()
		req, _ := request(t, http.MethodPut, tt.url, "body")
		resp, err := client.Do(req)
		if resp != nil {
			resp.Body.Close()
		}
		require.ErrorIs(t, err, retry.ErrBudgetExhausted)
		require.ErrorContains(t, err, req.URL.Host)
		require.Equal(t, tt.hits, rt.count()-before, tt.url)
	}
}
