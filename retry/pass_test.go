package retry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// unkeyed returns a request without a key. Its body can be read again; "" means none.
func unkeyed(t *testing.T, ctx context.Context, method, url, body string) *http.Request { //nolint:revive // t first, as in testing
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, reader)
	require.NoError(t, err)
	return req
}

// passed sends a request through the client's round tripper.
func passed(c *retry.Client, req *http.Request) (status int, err error) {
	resp, err := c.RoundTripper().RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// A request without a key is repeated where that is safe: its method is, or nothing was done.
func TestPass_repeats(t *testing.T) {
	t.Parallel()
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	once := func(r *http.Request) { r.GetBody = nil }
	lost, unsent := fails(errBroken), fails(errDial)
	for _, tt := range []struct {
		name, method, body string
		change             func(*http.Request)
		step               step
		want               int
	}{
		{"GET, lost", get, "", nil, lost, 4},
		{"HEAD, lost", http.MethodHead, "", nil, lost, 4},
		{"OPTIONS, lost", http.MethodOptions, "", nil, lost, 4},
		{"method left out, lost", "", "", nil, lost, 4},
		{"GET with a body, lost", get, "body", nil, lost, 4},
		{"GET with a body that is read once, lost", get, "body", once, lost, 1},
		{"GET with an explicit lack of a body, lost", get, "", func(r *http.Request) { r.Body = http.NoBody }, lost, 4},
		{"POST, lost", post, "body", nil, lost, 1},
		{"POST without a body, lost", post, "", nil, lost, 1},
		{"PUT, lost", put, "body", nil, lost, 1},
		{"DELETE, lost", http.MethodDelete, "", nil, lost, 1},
		{"POST, not connected", post, "body", nil, unsent, 4},
		{"POST, read once, not connected", post, "body", once, unsent, 1},
		{"GET, 503", get, "", nil, status(503), 1},
		{"GET, 500", get, "", nil, status(500), 1},
		{"POST, 503", post, "body", nil, status(503), 1},
		{"GET, 408", get, "", nil, status(408), 1},
		{"GET, 429", get, "", nil, status(429), 4},
		{"POST, 429", post, "body", nil, answer(429, "later", "Retry-After: 0"), 4},
		{"POST, 429, read once", post, "body", once, status(429), 1},
		{"POST, 429, not retryable", post, "body", nil, status(429, wire.HeaderShouldRetry+": false"), 1},
		{"POST, 421", post, "body", nil, answer(421, "elsewhere"), 4},
		{"POST, 425", post, "body", nil, status(425), 4},
		{"POST, refused before the claim", post, "body", nil, problem(wire.ScopeUnavailable, wire.HeaderCode+": scope-unavailable"), 4},
		{"POST, no key", post, "body", nil, problem(wire.KeyMissing, wire.HeaderCode+": key-missing"), 1},
		{"GET, no such host", get, "", nil, fails(&net.DNSError{IsNotFound: true}), 1},
		{"GET, neither answer nor error", get, "", nil, func(*http.Request) (*http.Response, error) { return nil, nil }, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.step)
			req := unkeyed(t, t.Context(), tt.method, stubURL, tt.body)
			if req.Method = tt.method; tt.change != nil {
				tt.change(req)
			}
			status, err := passed(newClient(t, over(rt)), req)
			require.Equal(t, tt.want, rt.count())
			for _, body := range rt.bodies {
				require.Equal(t, tt.body, body)
			}
			if err != nil {
				require.Zero(t, status)
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				require.Equal(t, tt.want, failed.Attempts)
			}
		})
	}
}

// The transport gets the request as it is, and the caller the transport's own answer.
func TestPass_untouched(t *testing.T) {
	t.Parallel()
	var sent *http.Request
	body := io.NopCloser(strings.NewReader("answer"))
	given := &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, ContentLength: -1}
	client := newClient(t, over(roundTrip(func(req *http.Request) (*http.Response, error) {
		sent = req
		return given, nil
	})))
	req := unkeyed(t, t.Context(), http.MethodPost, stubURL, "body")
	req.Header = http.Header{"X-A": {"1"}, "x-lower": {"2"}, wire.HeaderFirstSent: {"yesterday"}}
	req.Host, req.Close, req.TransferEncoding = "virtual.test", true, []string{"chunked"}
	req.Trailer = http.Header{"X-Sum": nil}
	before, header := *req, req.Header.Clone()
	resp, err := client.RoundTripper().RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Same(t, given, resp)
	require.Equal(t, body, resp.Body)
	require.Same(t, req, resp.Request)

	got := *sent
	require.Equal(t, header, got.Header)
	require.Same(t, req.URL, got.URL)
	require.Equal(t, req.Trailer, got.Trailer)
	require.True(t, got.Body == req.Body, "the body is read by the transport")
	require.NotNil(t, got.GetBody)
	require.Equal(t, []any{"virtual.test", true, int64(4)}, []any{got.Host, got.Close, got.ContentLength})
	require.Equal(t, req.TransferEncoding, got.TransferEncoding)
	require.Equal(t, header, req.Header, "the caller's request is not changed")
	require.Equal(t, before.URL, req.URL)
	require.True(t, before.Body == req.Body)
}

// A key makes the difference, in whatever case its header is spelled.
func TestPass_notWithAKey(t *testing.T) {
	t.Parallel()
	for _, header := range []string{wire.HeaderKey, wire.HeaderCancels, "idempotency-key"} {
		rt := script(status(503), status(200))
		req := unkeyed(t, t.Context(), http.MethodPut, stubURL, "body")
		req.Header[header] = []string{`"k"`}
		code, err := passed(newClient(t, over(rt)), req)
		require.NoError(t, err)
		require.Equal(t, 200, code, header)
		require.Equal(t, 2, rt.count(), header)
	}
}

// The waits are the client's, and a service that asks for more gets more.
func TestPass_waits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		steps []step
		want  time.Duration
	}{
		{"backoff", []step{fails(errDial), fails(errDial), status(200)}, 300 * ms},
		{"Retry-After", []step{status(429, "Retry-After: 7"), status(200)}, 7 * time.Second},
		{"Retry-After-Ms", []step{status(421, "Retry-After-Ms: 1500"), status(200)}, 1500 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				client := newClient(t, retry.Config{Rand: exact, Transport: script(tt.steps...)})
				code, err := passed(client, unkeyed(t, t.Context(), http.MethodPost, stubURL, "body"))
				require.NoError(t, err)
				require.Equal(t, 200, code)
				require.InDelta(t, tt.want.Seconds(), time.Since(start).Seconds(), 0.1*tt.want.Seconds())
			})
		})
	}
}

// An answer that is not repeated any more is the caller's.
func TestPass_answerWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*retry.Config) context.Context{
		"attempts":           func(*retry.Config) context.Context { return context.Background() },
		"budget":             func(cfg *retry.Config) context.Context { cfg.Budget = spent(t); return context.Background() },
		"Retry-After":        func(cfg *retry.Config) context.Context { cfg.RetryAfterCap = time.Second; return context.Background() },
		"the caller retries": func(*retry.Config) context.Context { return callerRetries(context.Background()) },
		"time": func(*retry.Config) context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			t.Cleanup(cancel)
			return ctx
		},
	} {
		rt := script(answer(429, "later", "Retry-After: 10"))
		if name == "attempts" {
			rt = script(answer(429, "later"))
		}
		cfg := over(rt)
		ctx := change(&cfg)
		resp, err := newClient(t, cfg).RoundTripper().RoundTrip(unkeyed(t, ctx, http.MethodGet, stubURL, ""))
		require.NoError(t, err, name)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err, name)
		require.Equal(t, "later", string(body), name)
		resp.Body.Close()
	}
}

// spent returns a budget without retries for the host of stubURL.
func spent(t *testing.T) *retry.Budget {
	budget := &retry.Budget{Reserve: 1, Refill: 1e-9}
	cfg := over(script(fails(errDial)))
	cfg.Budget = budget
	_, err := passed(newClient(t, cfg), unkeyed(t, t.Context(), http.MethodGet, stubURL, ""))
	require.ErrorIs(t, err, retry.ErrBudgetExhausted)
	return budget
}

// The ctx ends the wait. The client does not limit the attempt.
func TestPass_time(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var limited atomic.Bool
		client := newClient(t, retry.Config{Rand: exact, Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			_, ok := req.Context().Deadline()
			limited.Store(ok)
			time.Sleep(time.Hour)
			return nil, errBroken
		})})
		_, err := passed(client, unkeyed(t, t.Context(), http.MethodGet, stubURL, ""))
		require.ErrorIs(t, err, errBroken)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no time was up that the caller knows of")
		require.False(t, limited.Load())

		why := errors.New("shut down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*ms, func() { cancel(why) })
		start := time.Now()
		_, err = passed(newClient(t, retry.Config{Rand: exact, Transport: script(answer(429, "later"))}),
			unkeyed(t, ctx, http.MethodGet, stubURL, ""))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, err, retry.ErrRejected)
		require.Equal(t, 50*ms, time.Since(start))
	})
}

// A caller that has left sends nothing, and that is known.
func TestPass_endedBefore(t *testing.T) {
	t.Parallel()
	var calls retry.Calls
	ctx, cancel := context.WithCancel(calls.Context(t.Context()))
	cancel()
	for _, transport := range []http.RoundTripper{script(status(200)), ownTransport(t)} {
		req, closed := request(t, http.MethodPost, stubURL, "body")
		_, err := passed(newClient(t, over(transport)), req.WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, retry.ErrNotSent)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		require.True(t, failed.Retryable)
		require.Zero(t, failed.Attempts)
		require.EqualValues(t, 1, closed.Load())
	}
	require.Equal(t, retry.NotSent, calls.Outcome())
}

// An answer that nobody gets, and that does not end, does not hold the next attempt up.
func TestPass_answerWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := script(func(*http.Request) (*http.Response, error) {
			body, w := io.Pipe()
			go io.WriteString(w, "later") // and no more
			return &http.Response{StatusCode: 429, Header: http.Header{}, Body: body, ContentLength: -1}, nil
		}, status(200))
		start := time.Now()
		code, err := passed(newClient(t, over(rt)), unkeyed(t, t.Context(), http.MethodPost, stubURL, "body"))
		require.NoError(t, err)
		require.Equal(t, 200, code)
		require.Less(t, time.Since(start), 2*time.Second)
	})
}

// The clients of net/http can ask our errors for Timeout.
func TestPass_timeoutIsOne(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cause error
		want  bool
	}{{context.DeadlineExceeded, true}, {errBroken, false}} {
		client := &http.Client{Transport: newClient(t, over(script(fails(tt.cause)))).RoundTripper()}
		_, err := client.Do(unkeyed(t, t.Context(), http.MethodPost, stubURL, "body")) //nolint:bodyclose // there is none
		var failed *url.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, tt.want, failed.Timeout())
	}
}

// A request that net/http refuses is not refused ten times.
func TestPass_malformed(t *testing.T) {
	t.Parallel()
	cfg := retry.Config{Transport: ownTransport(t)}
	for name, change := range map[string]func(*http.Request){
		"no URL":       func(r *http.Request) { r.URL = nil },
		"no scheme":    func(r *http.Request) { r.URL.Scheme = "" },
		"no host":      func(r *http.Request) { r.URL.Host = "" },
		"no header":    func(r *http.Request) { r.Header = nil },
		"method":       func(r *http.Request) { r.Method = "no method" },
		"header name":  func(r *http.Request) { r.Header["a b"] = []string{"c"} },
		"header value": func(r *http.Request) { r.Header["A"] = []string{"b\nc"} },
	} {
		req, closed := request(t, http.MethodOptions, stubURL, "body")
		req.GetBody = func() (io.ReadCloser, error) { return nil, errBroken }
		change(req)
		_, err := passed(newClient(t, cfg), req)
		require.ErrorIs(t, err, retry.ErrNotSent, name)
		var failed *retry.Error
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, 1, failed.Attempts, name)
		require.EqualValues(t, 1, closed.Load(), name)
	}
	other := unkeyed(t, t.Context(), http.MethodGet, "gopher://payment.test", "")
	_, err := passed(newClient(t, cfg), other)
	var failed *retry.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, retry.Unknown, failed.Outcome, "another transport may be registered for it")
	require.Equal(t, 1, failed.Attempts)
}

// The body is closed where no transport gets it, and a body that cannot be opened again ends
// the call.
func TestPass_closesTheBody(t *testing.T) {
	t.Parallel()
	req, closed := request(t, http.MethodPost, stubURL, "body")
	_, err := passed(new(retry.Client), req)
	require.ErrorIs(t, err, retry.ErrConfig)
	require.ErrorIs(t, err, retry.ErrNotSent)
	require.EqualValues(t, 1, closed.Load())

	rt := script(status(429))
	s := sources(text("body"), func() (io.Reader, error) { return nil, errBroken })
	req, closed = request(t, http.MethodPost, stubURL, "body")
	req.GetBody = s.open
	_, err = passed(newClient(t, over(rt)), req)
	require.ErrorIs(t, err, errBroken)
	require.ErrorIs(t, err, retry.ErrRejected)
	require.Equal(t, 2, rt.count())
	require.EqualValues(t, 1, closed.Load())
	s.requireClosed(t)
}

// An answer that nobody gets is closed, also one that comes with an error.
func TestPass_closesEveryAnswer(t *testing.T) {
	t.Parallel()
	for _, code := range []int{429, 421, 0} {
		var closed atomic.Int32
		rt := script(func(*http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: closeCounter{strings.NewReader("later"), &closed}}
			if code == 0 {
				return resp, errBroken
			}
			return resp, nil
		})
		_, _ = passed(newClient(t, over(rt)), unkeyed(t, t.Context(), http.MethodGet, stubURL, ""))
		require.EqualValues(t, 4, rt.count(), code)
		require.EqualValues(t, 4, closed.Load(), code)
	}
}

// Observers hear of a call that passes as of any other.
func TestPass_isObserved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method  string
		steps   []step
		outcome retry.Outcome
		status  int
		err     error
	}{
		{http.MethodGet, []step{fails(errDial), status(200)}, retry.Completed, 200, nil},
		{http.MethodGet, []step{fails(errDial), status(101)}, retry.Completed, 101, nil},
		{http.MethodGet, []step{fails(errDial), status(404)}, retry.Rejected, 404, retry.ErrRejected},
		{http.MethodPost, []step{fails(errDial), status(500)}, retry.Unknown, 500, retry.ErrUnknown},
		{http.MethodPost, []step{fails(errDial), fails(errBroken)}, retry.Unknown, 0, errBroken},
	} {
		var heard recorder
		cfg := over(script(tt.steps...))
		cfg.Observer = &heard
		passed(newClient(t, cfg), unkeyed(t, t.Context(), tt.method, stubURL, ""))
		require.Len(t, heard.attempts, 2)
		require.Equal(t, []int{1, 2}, []int{heard.attempts[0].Number, heard.attempts[1].Number})
		require.Len(t, heard.calls, 1)
		e := heard.calls[0]
		require.Equal(t, []any{tt.outcome, tt.status, 2, "payment.test"}, []any{e.Outcome, e.Status, e.Attempts, e.Service})
		require.ErrorIs(t, e.Err, tt.err)
	}
	spans := new(tracer)
	cfg := over(script(status(200)))
	cfg.Observer = spans
	passed(newClient(t, cfg), unkeyed(t, t.Context(), http.MethodGet, stubURL, ""))
	require.Len(t, spans.log, 4)
}

func TestPass_closesIdleConnections(t *testing.T) {
	t.Parallel()
	rt := &idle{RoundTripper: script(status(200))}
	client := &http.Client{Transport: newClient(t, over(rt)).RoundTripper()}
	client.CloseIdleConnections()
	require.EqualValues(t, 1, rt.closed.Load())
	(&http.Client{Transport: newClient(t, over(script(status(200)))).RoundTripper()}).CloseIdleConnections()
	(&http.Client{Transport: (*retry.Client)(nil).RoundTripper()}).CloseIdleConnections()
}

// An idle counts how often its idle connections are closed.
type idle struct {
	http.RoundTripper
	closed atomic.Int32
}

func (i *idle) CloseIdleConnections() { i.closed.Add(1) }
