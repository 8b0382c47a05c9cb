package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A limiter turns away what has the path /busy, as its answer says, and takes everything else. It notes when requests came.
type limiter struct {
	busy step

	mu   sync.Mutex
	came map[string]time.Time
}

func (l *limiter) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	if l.came == nil {
		l.came = make(map[string]time.Time)
	}
	l.came[req.URL.Path] = time.Now()
	l.mu.Unlock()
	switch req.URL.Path {
	case "/busy":
		return l.busy(req)
	case "/slow":
		time.Sleep(2 * time.Second)
	}
	return status(200)(req)
}

// pausing runs f in virtual time with a client over l, which makes one attempt. The client's random parts are zero.
func pausing(t *testing.T, l *limiter, change func(*retry.Config), f func(t *testing.T, c *retry.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := retry.Config{Transport: l, Rand: exact, MaxAttempts: 1, Profile: retry.Unguarded()}
		if change != nil {
			change(&cfg)
		}
		f(t, newClient(t, cfg))
	})
}

func to(path string, header ...string) retry.Call {
	call := post("http://payment.test" + path)
	call.Header = make(http.Header)
	for i := 0; i < len(header); i += 2 {
		call.Header.Set(header[i], header[i+1])
	}
	return call
}

// A wait that a service asks of one call holds for the calls to the service with the same credential.
func TestPause_siblingsWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		busy step
		wait time.Duration
	}{
		{"429", status(429, "Retry-After: 3"), 3 * time.Second},
		{"503", status(503, "Retry-After: 3"), 3 * time.Second},
		{"milliseconds", status(429, "Retry-After: 1", "Retry-After-Ms: 250"), 250 * ms},
		{"a guard without its store", problem(wire.StoreUnavailable, "Retry-After: 2"), 2 * time.Second},
		{"too long", status(429, "Retry-After: 3600"), 5 * time.Second},
		{"no Retry-After", status(429), 0},
		{"of one key", problem(wire.InProgress, "Retry-After: 3"), 0},
		{"another status", status(425, "Retry-After: 3"), 0},
		{"a broken connection", fails(errBroken), 0},
	} {
		l := &limiter{busy: tt.busy}
		pausing(t, l, func(cfg *retry.Config) { cfg.MaxPolls = 1; cfg.RetryAfterCap = time.Second }, func(t *testing.T, c *retry.Client) {
			failure(t, c, to("/busy"))
			start := time.Now()
			_, err := c.Send(t.Context(), to("/a"))
			require.NoError(t, err, tt.name)
			require.Equal(t, tt.wait, time.Since(start), tt.name)
			require.Zero(t, c.Pauses())
		})
	}
}

// Calls of somebody else, as the service sees it, do not wait.
func TestPause_othersDoNotWait(t *testing.T) {
	t.Parallel()
	mine := to("/busy", "Authorization", "Bearer mine", "X-Tenant-Id", "7")
	for name, tt := range map[string]struct {
		change func(*retry.Call)
		waits  bool
	}{
		"the same":            {func(*retry.Call) {}, true},
		"another key":         {func(c *retry.Call) { c.Key = mustKey("k-2") }, true},
		"another operation":   {func(c *retry.Call) { c.Operation = "refund" }, true},
		"another trace":       {func(c *retry.Call) { c.Header.Set("Traceparent", "00-1") }, true},
		"another request ID":  {func(c *retry.Call) { c.Header.Set("X-Client-Request-Id", "8") }, true},
		"another spelling":    {func(c *retry.Call) { c.Header = http.Header{"authorization": {"Bearer mine"}, "x-tenant-id": {"7"}} }, true},
		"another credential":  {func(c *retry.Call) { c.Header.Set("Authorization", "Bearer yours") }, false},
		"no credential":       {func(c *retry.Call) { c.Header.Del("Authorization") }, false},
		"another tenant":      {func(c *retry.Call) { c.Header.Set("X-Tenant-Id", "8") }, false},
		"another API key":     {func(c *retry.Call) { c.Header.Set("X-Api-Key", "k") }, false},
		"another shop":        {func(c *retry.Call) { c.Header.Set("X-Shop-Access-Token", "s") }, false},
		"another session":     {func(c *retry.Call) { c.Header.Set("Cookie", "session=1") }, false},
		"another account":     {func(c *retry.Call) { c.Header.Set("Stripe-Account", "acct_1") }, false},
		"a key in the query":  {func(c *retry.Call) { c.URL += "?api_key=2" }, false},
		"a page in the query": {func(c *retry.Call) { c.URL += "?page=2" }, true},
		"a user in the URL":   {func(c *retry.Call) { c.URL = "http://me:secret@payment.test/a" }, false},
		"another service":     {func(c *retry.Call) { c.Service = "inventory" }, false},
	} {
		l := &limiter{busy: status(429, "Retry-After: 3")}
		pausing(t, l, nil, func(t *testing.T, c *retry.Client) {
			failure(t, c, mine)
			call := to("/a", "Authorization", "Bearer mine", "X-Tenant-Id", "7")
			tt.change(&call)
			start := time.Now()
			_, err := c.Send(t.Context(), call)
			require.NoError(t, err, name)
			want := time.Duration(0)
			if tt.waits {
				want = 3 * time.Second
			}
			require.Equal(t, want, time.Since(start), name)
		})
	}
}

// The header that carries the keys does not tell callers apart, whatever its name. A call without a Service is one to its host.
func TestPause_keyHeaderAndHost(t *testing.T) {
	t.Parallel()
	l := &limiter{busy: status(429, "Retry-After: 3")}
	profile := func(cfg *retry.Config) { cfg.Profile = &retry.Profile{KeyHeader: "Operation-Token"} }
	pausing(t, l, profile, func(t *testing.T, c *retry.Client) {
		busy, other, sibling := to("/busy"), to("/a"), to("/b")
		busy.Service, other.Service, sibling.Service = "", "", ""
		other.URL, sibling.Key = "http://inventory.test/a", mustKey("k-2")
		failure(t, c, busy)
		start := time.Now()
		_, err := c.Send(t.Context(), other)
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		_, err = c.Send(t.Context(), sibling)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

// The credential is what Prepare made of the request, and Prepare is asked anew after the wait.
func TestPause_preparedCredential(t *testing.T) {
	t.Parallel()
	type tenant struct{}
	l := &limiter{busy: status(429, "Retry-After: 3")}
	var prepared []time.Time
	prepare := func(_ int, req *http.Request) error {
		prepared = append(prepared, time.Now())
		req.Header.Set("Authorization", fmt.Sprint(req.Context().Value(tenant{})))
		return nil
	}
	pausing(t, l, func(cfg *retry.Config) { cfg.Prepare = prepare }, func(t *testing.T, c *retry.Client) {
		ctx := context.WithValue(t.Context(), tenant{}, "mine")
		failureContext(t, ctx, c, to("/busy"))
		start := time.Now()
		_, err := c.Send(context.WithValue(t.Context(), tenant{}, "yours"), to("/a"))
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
		_, err = c.Send(ctx, to("/a"))
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, start.Add(3*time.Second), prepared[len(prepared)-1])
	})
}

// A success ends the wait of all who wait for the same. Another caller's success ends nothing.
func TestPause_successLifts(t *testing.T) {
	t.Parallel()
	for credential, waits := range map[string]time.Duration{"mine": 2 * time.Second, "yours": 4 * time.Second} {
		l := &limiter{busy: status(429, "Retry-After: 4")}
		pausing(t, l, nil, func(t *testing.T, c *retry.Client) {
			start := time.Now()
			var calls sync.WaitGroup
			calls.Go(func() {
				_, err := c.Send(t.Context(), to("/slow", "Authorization", credential)) // on its way when the pause begins
				require.NoError(t, err)
			})
			synctest.Wait()
			failure(t, c, to("/busy", "Authorization", "mine"))
			for i := range 5 {
				calls.Go(func() {
					_, err := c.Send(t.Context(), to(fmt.Sprint("/", i), "Authorization", "mine"))
					require.NoError(t, err)
				})
			}
			calls.Wait()
			for i := range 5 {
				require.Equal(t, start.Add(waits), l.came[fmt.Sprint("/", i)], credential)
			}
			require.Zero(t, c.Pauses())
		})
	}
}

// Those who wait do not come at the same moment.
func TestPause_isSpread(t *testing.T) {
	t.Parallel()
	l := &limiter{busy: status(429, "Retry-After: 1")}
	pausing(t, l, func(cfg *retry.Config) { cfg.Rand = nil }, func(t *testing.T, c *retry.Client) {
		failure(t, c, to("/busy"))
		end := time.Now().Add(time.Second)
		var calls sync.WaitGroup
		for i := range 40 {
			calls.Go(func() {
				_, err := c.Send(t.Context(), to(fmt.Sprint("/", i)))
				require.NoError(t, err)
			})
		}
		calls.Wait()
		moments := make(map[time.Time]bool)
		for i := range 40 {
			at := l.came[fmt.Sprint("/", i)]
			moments[at] = true
			require.False(t, at.Before(end))
			require.LessOrEqual(t, at.Sub(end), 200*ms)
		}
		require.Greater(t, len(moments), 10)
	})
}

// A call that is told to wait for longer makes all the others wait for longer. A shorter wait changes nothing.
func TestPause_isProlonged(t *testing.T) {
	t.Parallel()
	for later, want := range map[string]time.Duration{"Retry-After: 4": 4500 * ms, "Retry-After: 1": 3 * time.Second} {
		l := &limiter{busy: func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Traceparent") == "second" {
				time.Sleep(500 * ms)
				return status(429, later)(req)
			}
			return status(429, "Retry-After: 3")(req)
		}}
		pausing(t, l, nil, func(t *testing.T, c *retry.Client) {
			start := time.Now()
			var calls sync.WaitGroup
			calls.Go(func() { failure(t, c, to("/busy", "Traceparent", "second")) })
			synctest.Wait()
			failure(t, c, to("/busy"))
			_, err := c.Send(t.Context(), to("/a"))
			require.NoError(t, err)
			require.Equal(t, want, time.Since(start), later)
			calls.Wait()
		})
	}
}

// The end of a ctx ends the wait. Nothing was sent, and the call can be made again. A deadline leaves time for an attempt.
func TestPause_endsWithTheCall(t *testing.T) {
	t.Parallel()
	reason := errors.New("user left")
	request := func(ctx context.Context, key string) *http.Request {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://payment.test/a", nil)
		if key != "" {
			req.Header.Set(wire.HeaderKey, key)
		}
		return req
	}
	for name, call := range map[string]func(ctx context.Context, c *retry.Client) error{
		"Send": func(ctx context.Context, c *retry.Client) error {
			call := to("/a")
			call.Service = "payment.test"
			_, err := c.Send(ctx, call)
			return err
		},
		"Do": func(ctx context.Context, c *retry.Client) error { return closed(c.Do(request(ctx, "k-1"))) },
		"keyed round trip": func(ctx context.Context, c *retry.Client) error {
			return closed(c.RoundTripper().RoundTrip(request(ctx, "k-1")))
		},
		"round trip": func(ctx context.Context, c *retry.Client) error {
			return closed(c.RoundTripper().RoundTrip(request(ctx, "")))
		},
	} {
		for _, attempts := range []int{1, 4} {
			for limit, tt := range map[string]struct {
				limit func(ctx context.Context) (context.Context, context.CancelFunc)
				is    []error // nil: it is sent in time
			}{
				"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeoutCause(ctx, time.Second, reason)
				}, nil},
				"cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancelCause(ctx)
					time.AfterFunc(time.Second, func() { cancel(reason) })
					return ctx, func() { cancel(nil) }
				}, []error{context.Canceled, reason}},
				"inbound": {func(ctx context.Context) (context.Context, context.CancelFunc) {
					return wire.NewContext(ctx, wire.Inbound{Deadline: time.Now().Add(time.Second)}), func() {}
				}, nil},
			} {
				l := &limiter{busy: status(429, "Retry-After: 3")}
				pausing(t, l, func(cfg *retry.Config) { cfg.MaxAttempts, cfg.RetryAfterCap = attempts, time.Second }, func(t *testing.T, c *retry.Client) {
					busy := to("/busy")
					busy.Service, busy.Key = "payment.test", childkey.Key{}
					failure(t, c, busy)
					if name == "round trip" && limit == "inbound" {
						return // only its ctx bounds such a request
					}
					ctx, cancel := tt.limit(t.Context())
					defer cancel()
					start := time.Now()
					err := call(ctx, c)
					if tt.is == nil {
						require.NoError(t, err, "%s, %s", name, limit)
						require.Equal(t, 950*time.Millisecond, time.Since(start), "%s, %s", name, limit)
						return
					}
					var failed *retry.Error
					require.ErrorAs(t, err, &failed, "%s, %s", name, limit)
					require.Equal(t, time.Second, time.Since(start), "%s, %s", name, limit)
					require.Equal(t, retry.NotSent, failed.Outcome, "%s, %s: %v", name, limit, err)
					require.True(t, failed.Retryable, "%s, %s", name, limit)
					for _, want := range tt.is {
						require.ErrorIs(t, err, want, "%s, %s", name, limit)
					}
					require.NotContains(t, l.came, "/a")
				})
			}
		}
	}
}

// The time of the wait is not the attempt's, whose callee hears what is left after it.
func TestPause_isNotTheAttempts(t *testing.T) {
	t.Parallel()
	rt := script(status(429, "Retry-After: 3"), status(200))
	bubble(t, rt, func(cfg *retry.Config) { cfg.AttemptTimeout, cfg.RetryAfterCap = time.Second, time.Second }, func(t *testing.T, c *retry.Client) {
		failure(t, c, to("/busy"))
		resp, err := c.Send(t.Context(), to("/a"))
		require.NoError(t, err)
		require.Equal(t, 1, resp.Attempts)
		require.Equal(t, []time.Duration{3 * time.Second}, rt.waits())
		require.Equal(t, "980 980", rt.header(wire.HeaderRequestTimeout))
	})
}

// The round tripper hears and tells in the same way, with a key and without one.
func TestPause_roundTripper(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "k-1"} {
		for _, then := range []string{"", "k-2"} {
			l := &limiter{busy: status(503, "Retry-After: 2")}
			pausing(t, l, nil, func(t *testing.T, c *retry.Client) {
				send := func(path, key string) {
					req := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "payment.test", Path: path}, Header: http.Header{}}
					if key != "" {
						req.Header.Set(wire.HeaderKey, key)
					}
					require.NoError(t, closed(c.RoundTripper().RoundTrip(req)))
				}
				start := time.Now()
				send("/busy", from)
				send("/a", then)
				require.Equal(t, 2*time.Second, time.Since(start), "%q, %q", from, then)
			})
		}
	}
}

// A client keeps a bounded number of pauses, and forgets those that are over.
func TestPause_isBounded(t *testing.T) {
	t.Parallel()
	l := &limiter{busy: status(429, "Retry-After: 3")}
	pausing(t, l, nil, func(t *testing.T, c *retry.Client) {
		for range 2 {
			for i := range 3000 {
				failure(t, c, to("/busy", "Authorization", fmt.Sprint(i)))
			}
			require.Equal(t, 1024, c.Pauses())
			time.Sleep(3 * time.Second)
		}
		failure(t, c, to("/busy"))
		require.Equal(t, 1, c.Pauses())
	})
}
