package retry_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// bubble runs f in virtual time with a client over rt that makes four attempts, without jitter.
func bubble(t *testing.T, rt *stub, change func(*retry.Config), f func(t *testing.T, c *retry.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := retry.Config{Transport: rt, Rand: exact, MaxAttempts: 4, Profile: retry.Unguarded()}
		if change != nil {
			change(&cfg)
		}
		f(t, newClient(t, cfg))
	})
}

// waits returns the time between the requests.
func (s *stub) waits() (all []time.Duration) {
	for i := 1; i < len(s.times); i++ {
		all = append(all, s.times[i].Sub(s.times[i-1]))
	}
	return all
}

const ms = time.Millisecond

func TestSend_backsOff(t *testing.T) {
	t.Parallel()
	rt := script(status(503))
	bubble(t, rt, func(cfg *retry.Config) { cfg.MaxAttempts = 9 }, func(t *testing.T, c *retry.Client) {
		failed := failure(t, c, post(stubURL))
		require.Equal(t, 9, failed.Attempts)
		require.Equal(t, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms}, rt.waits())
	})
}

// Callers that failed together come back apart, without being told to.
func TestSend_callersComeBackApart(t *testing.T) {
	t.Parallel()
	rt := script(status(503))
	bubble(t, rt, func(cfg *retry.Config) { cfg.Rand, cfg.MaxAttempts = nil, 2 }, func(t *testing.T, c *retry.Client) {
		waits := make(map[time.Duration]bool)
		for range 20 {
			rt.times = nil
			failure(t, c, post(stubURL))
			waits[rt.waits()[0]] = true
		}
		require.Greater(t, len(waits), 10)
	})
}

// Each call begins its backoff anew, whatever other calls of the client do.
func TestSend_callsShareNoBackoff(t *testing.T) {
	t.Parallel()
	events := &recorder{}
	bubble(t, script(status(503)), func(cfg *retry.Config) { cfg.Observer = events }, func(t *testing.T, c *retry.Client) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { failure(t, c, post(stubURL)) })
			time.Sleep(30 * ms)
		}
		wg.Wait()
		want := map[int]time.Duration{1: 100 * ms, 2: 200 * ms, 3: 400 * ms, 4: 0}
		require.Len(t, events.attempts, 8*len(want))
		for _, e := range events.attempts {
			require.Equal(t, want[e.Number], e.Wait, "after attempt %d", e.Number)
		}
	})
}

// A wait beyond the cap is not begun.
func TestSend_retryAfterBeyondTheCap(t *testing.T) {
	t.Parallel()
	failed := failure(t, newClient(t, over(script(status(429, "Retry-After: 3600")))), post(stubURL))
	require.ErrorIs(t, failed, retry.ErrRetryAfter)
	require.Equal(t, time.Hour, failed.RetryAfter)
}

// A wait that cannot end in time is not begun, and what was seen is not lost.
func TestSend_returnsAtOnceWhenTheWaitIsTooLong(t *testing.T) {
	t.Parallel()
	rt := script(status(429, "Retry-After: 5"))
	bubble(t, rt, nil, func(t *testing.T, c *retry.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		start := time.Now()
		failed := failureContext(t, ctx, c, post(stubURL))
		require.Zero(t, time.Since(start))
		require.ErrorIs(t, failed, retry.ErrDeadline)
		require.ErrorIs(t, failed, context.DeadlineExceeded)
		require.ErrorIs(t, failed, retry.ErrRejected)
		require.Equal(t, 429, failed.Status)
		require.Equal(t, 5*time.Second, failed.RetryAfter)
		require.ErrorContains(t, failed, "status 429")
	})
}

// Waits are random. A long one does not end a call that has time left for another attempt,
// whoever set the deadline and whatever is waited for.
func TestSend_doesNotGiveUpWhileAnAttemptFits(t *testing.T) {
	t.Parallel()
	const back = 600 * ms // when the service is well again
	for _, tt := range []struct {
		name   string
		before step
		limit  func(*retry.Config) // nil: the ctx ends
	}{
		{"refused, deadline of ctx", fails(errDial), nil},
		{"503, Timeout", status(503), func(cfg *retry.Config) { cfg.Timeout = time.Second }},
		{"still running, deadline of ctx", problem(wire.InProgress), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for range 200 {
				rt := script()
				change := func(cfg *retry.Config) {
					cfg.Rand, cfg.MaxAttempts = nil, 10
					if tt.limit != nil {
						tt.limit(cfg)
					}
				}
				bubble(t, rt, change, func(t *testing.T, c *retry.Client) {
					ctx := t.Context()
					if tt.limit == nil {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, time.Second)
						defer cancel()
					}
					start := time.Now()
					rt.steps = []step{func(req *http.Request) (*http.Response, error) {
						if time.Since(start) < back {
							return tt.before(req)
						}
						return status(200)(req)
					}}
					_, err := c.Send(ctx, post(stubURL))
					require.NoError(t, err)
				})
			}
		})
	}
}

// The reason that the caller gave its deadline stays in the chain, whenever the deadline comes and however the call is made.
func TestClient_keepsTheCauseOfADeadline(t *testing.T) {
	t.Parallel()
	mine := errors.New("the shop closes")
	request := func(ctx context.Context, key string, body io.Reader) *http.Request {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, body)
		if key != "" {
			req.Header.Set(wire.HeaderKey, key)
		}
		return req
	}
	send := func(key childkey.Key) func(ctx context.Context, c *retry.Client) error {
		return func(ctx context.Context, c *retry.Client) error {
			call := post(stubURL)
			call.Key = key
			_, err := c.Send(ctx, call)
			return err
		}
	}
	for name, call := range map[string]func(ctx context.Context, c *retry.Client) error{
		"Send": send(key), "Send, once": send(childkey.Key{}),
		"Do": func(ctx context.Context, c *retry.Client) error { return closed(c.Do(request(ctx, "k-1", nil))) },
		"Do, body": func(ctx context.Context, c *retry.Client) error {
			body, w := io.Pipe() // nobody writes
			defer w.Close()
			return closed(c.Do(request(ctx, "k-1", body)))
		},
		"round trip": func(ctx context.Context, c *retry.Client) error {
			return closed(c.RoundTripper().RoundTrip(request(ctx, "", nil)))
		},
		"keyed round trip": func(ctx context.Context, c *retry.Client) error {
			return closed(c.RoundTripper().RoundTrip(request(ctx, "k-1", nil)))
		},
		"not HTTP": func(ctx context.Context, c *retry.Client) error {
			_, err := retry.Do(ctx, c, retry.Task{Key: key}, func(ctx context.Context, _ retry.Attempt) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, nil)
			return err
		},
	} {
		for _, first := range []step{hangs, status(503), fails(errRefused)} { // the deadline comes in an attempt, or in a wait
			for _, left := range []time.Duration{-time.Second, 0, 30 * ms, time.Second} {
				bubble(t, script(first, hangs), nil, func(t *testing.T, c *retry.Client) {
					ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(left), mine)
					defer cancel()
					err := call(ctx, c)
					if err == nil || ctx.Err() == nil {
						return // an answer, or there was no time for a wait: the deadline did not come
					}
					require.ErrorIs(t, err, mine, "%s, %v", name, left)
					require.ErrorIs(t, err, context.DeadlineExceeded, "%s, %v", name, left)
				})
			}
		}
	}
}

func TestSend_cancelDuringTheWait(t *testing.T) {
	t.Parallel()
	reason := errors.New("user left")
	rt := script(status(503, "Retry-After: 5"))
	bubble(t, rt, nil, func(t *testing.T, c *retry.Client) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		start := time.Now()
		failed := failureContext(t, ctx, c, post(stubURL))
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, failed, context.Canceled)
		require.ErrorIs(t, failed, reason)
		require.Equal(t, 503, failed.Status)
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Equal(t, 1, rt.count())
	})
}

func TestSend_attemptTimeoutIsRetried(t *testing.T) {
	t.Parallel()
	rt := script(hangs, hangs, status(201))
	bubble(t, rt, func(cfg *retry.Config) { cfg.AttemptTimeout = 2 * time.Second }, func(t *testing.T, c *retry.Client) {
		resp, err := c.Send(t.Context(), post(stubURL))
		require.NoError(t, err)
		require.Equal(t, 3, resp.Attempts)
		require.Equal(t, []time.Duration{2100 * ms, 2200 * ms}, rt.waits())
		require.Equal(t, "1980 1980 1980", rt.header(wire.HeaderRequestTimeout))
	})
}

func TestSend_totalTimeout(t *testing.T) {
	t.Parallel()
	rt := script(hangs)
	bubble(t, rt, func(cfg *retry.Config) { cfg.Timeout, cfg.AttemptTimeout = 5*time.Second, 2*time.Second }, func(t *testing.T, c *retry.Client) {
		start := time.Now()
		failed := failure(t, c, post(stubURL))
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		require.ErrorIs(t, failed, retry.ErrDeadline, "no time is left for another attempt")
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Equal(t, "1980 1980 680", rt.header(wire.HeaderRequestTimeout), "each attempt is told its own time")
	})
}

// Where the whole call's time bounds its attempts, each hears of less than the one before.
func TestSend_eachAttemptIsToldLess(t *testing.T) {
	t.Parallel()
	rt := script(status(503))
	bubble(t, rt, func(cfg *retry.Config) { cfg.Timeout = 5 * time.Second }, func(t *testing.T, c *retry.Client) {
		failure(t, c, post(stubURL))
		require.Equal(t, "4980 4880 4680 4280", rt.header(wire.HeaderRequestTimeout))
	})
}

func TestSend_inboundDeadlineBounds(t *testing.T) {
	t.Parallel()
	rt := script(hangs)
	bubble(t, rt, nil, func(t *testing.T, c *retry.Client) {
		start := time.Now()
		ctx := wire.NewContext(t.Context(), wire.Inbound{Deadline: start.Add(time.Second)})
		failed := failureContext(t, ctx, c, post(stubURL))
		require.LessOrEqual(t, time.Since(start), time.Second)
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Equal(t, "980", rt.header(wire.HeaderRequestTimeout))
	})
}

// connected tells the client's trace of a connection, which was used before or is new.
func connected(reused bool, then step) step {
	return func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GetConn("payment.test:80")
		trace.GotConn(httptrace.GotConnInfo{Reused: reused})
		return then(req)
	}
}

// A connection that was used before can be dead. One attempt over it leaves time for another one, whichever deadline bounds
// the call. Any other attempt has all of the time.
func TestSend_reusedConnectionLeavesAThird(t *testing.T) {
	t.Parallel()
	const longest = 3 * time.Second
	byContext := func(*retry.Config) {}
	byTimeout := func(cfg *retry.Config) { cfg.Timeout = longest }
	tests := []struct {
		name  string
		limit func(*retry.Config)
		steps []step
		key   childkey.Key
		waits []time.Duration // between the attempts; none: the first one has all of the time
	}{
		{"reused, ctx", byContext, []step{connected(true, hangs), status(201)}, key, []time.Duration{2100 * ms}},
		{"reused, Timeout", byTimeout, []step{connected(true, hangs), status(201)}, key, []time.Duration{2100 * ms}},
		{"reused twice", byTimeout, []step{connected(true, hangs), connected(true, hangs), status(201)}, key, []time.Duration{2100 * ms, 800 * ms}},
		{"reused for a poll", byTimeout, []step{problem(wire.InProgress), connected(true, hangs), status(201)}, key, []time.Duration{100 * ms, 2033333334}},
		{"reused, then a new one in the same attempt", byTimeout, []step{connected(true, connected(false, hangs))}, key, nil},
		{"a new one, then reused", byTimeout, []step{connected(false, connected(true, hangs)), status(201)}, key, []time.Duration{2200 * ms}},
		{"new, ctx", byContext, []step{connected(false, hangs)}, key, nil},
		{"new, Timeout", byTimeout, []step{connected(false, hangs)}, key, nil},
		{"not told", byTimeout, []step{hangs}, key, nil},
		{"the only attempt", func(cfg *retry.Config) { cfg.MaxAttempts = 1 }, []step{connected(true, hangs)}, key, nil},
		{"never sent again", byTimeout, []step{connected(true, hangs)}, childkey.Key{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.steps...)
			bubble(t, rt, tt.limit, func(t *testing.T, c *retry.Client) {
				ctx, cancel := context.WithTimeout(t.Context(), longest)
				defer cancel()
				call, start := post(stubURL), time.Now()
				call.Key = tt.key
				_, err := c.Send(ctx, call)
				if tt.waits == nil {
					require.ErrorIs(t, err, retry.ErrDeadline)
					require.Equal(t, longest, time.Since(start))
					require.Equal(t, 1, rt.count())
					return
				}
				require.NoError(t, err)
				require.Equal(t, tt.waits, rt.waits())
			})
		})
	}
}

// A callee that is well answers within the deadline, whoever set it and however the call is made.
func TestClient_healthyCalleeWithinTheDeadline(t *testing.T) {
	t.Parallel()
	slow := func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(250 * ms):
			return status(200)(req)
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	for name, limit := range map[string]func(*retry.Config){
		"ctx": nil, "Timeout": func(cfg *retry.Config) { cfg.Timeout = 300 * ms },
	} {
		for _, then := range []step{slow, connected(false, slow)} {
			rt := script(then)
			bubble(t, rt, limit, func(t *testing.T, c *retry.Client) {
				ctx := t.Context()
				if limit == nil {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 300*ms)
					defer cancel()
				}
				_, err := c.Send(ctx, post(stubURL))
				require.NoError(t, err, name)
				task := retry.Task{Service: "payment", Key: key}
				if limit == nil {
					return // its time is up
				}
				_, err = retry.Do(ctx, c, task, func(ctx context.Context, _ retry.Attempt) (*http.Response, error) {
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, nil)
					return slow(req)
				}, nil)
				require.NoError(t, err, name)
			})
		}
	}
}

// A kept connection whose peer is gone uses two thirds of the time. The next attempt makes a new one.
func TestSend_deadKeptConnection(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	url := raw(t, func(conn net.Conn) {
		first := conns.Add(1) == 1
		reader := bufio.NewReader(conn)
		for n := 1; ; n++ {
			req, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if first && n > 1 {
				continue // it got the request, and never answers
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	c := newClient(t, retry.Config{Transport: ownTransport(t), Profile: retry.Unguarded()})
	_, err := c.Send(t.Context(), post(url))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	resp, err := c.Send(ctx, post(url))
	require.NoError(t, err)
	require.Equal(t, 2, resp.Attempts)
	require.EqualValues(t, 2, conns.Load())
}

// By default a call lasts longer than a service takes to restart: the waits are 10 s long
// on average.
func TestSend_defaultsOutlastARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := script(status(503))
		c := newClient(t, retry.Config{Transport: rt, Rand: func() float64 { return 0.5 }}) // the average
		start := time.Now()
		failed := failure(t, c, post(stubURL))
		require.Equal(t, retry.DefaultMaxAttempts, failed.Attempts)
		require.InDelta(t, 10, time.Since(start).Seconds(), 1)
		require.NotErrorIs(t, failed, retry.ErrCallerRetries)
	})
}

// A call makes as many attempts as its client says.
func TestSend_maxAttemptsMeansWhatItSays(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 5, 10, 30} {
		rt := script(status(503))
		cfg := over(rt)
		cfg.MaxAttempts = attempts
		failed := failure(t, newClient(t, cfg), post(stubURL))
		require.Equal(t, attempts, failed.Attempts)
		require.NotErrorIs(t, failed, retry.ErrCallerRetries)
		require.NotContains(t, failed.Error(), "inbound")
	}
}

// The timeout that the callee hears is never zero, which could mean infinite.
func TestSend_tellsAtLeastAMillisecond(t *testing.T) {
	t.Parallel()
	rt := script(status(200))
	bubble(t, rt, nil, func(t *testing.T, c *retry.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*ms)
		defer cancel()
		_, err := c.Send(ctx, post(stubURL))
		require.NoError(t, err)
		require.Equal(t, "1", rt.header(wire.HeaderRequestTimeout))
	})
}

// A complete answer is returned although the caller's ctx ended meanwhile.
func TestSend_completeAnswerWinsOverContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	rt := script(func(req *http.Request) (*http.Response, error) {
		cancel()
		return answer(201, "made")(req)
	})
	resp, err := newClient(t, over(rt)).Send(ctx, post(stubURL))
	require.NoError(t, err)
	require.Equal(t, "made", string(resp.Body))

	ctx, cancel = context.WithCancel(t.Context())
	rt = script(func(req *http.Request) (*http.Response, error) {
		cancel()
		return status(402)(req)
	})
	failed := failureContext(t, ctx, newClient(t, over(rt)), post(stubURL))
	require.Equal(t, retry.Rejected, failed.Outcome)
	require.NotErrorIs(t, failed, context.Canceled)
}

func TestSend_contextAlreadyDone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rt := script(status(200))
	failed := failureContext(t, ctx, newClient(t, over(rt)), post(stubURL))
	require.ErrorIs(t, failed, context.Canceled)
	require.ErrorIs(t, failed, retry.ErrNotSent)
	require.Zero(t, failed.Attempts)
	require.True(t, failed.Retryable)
	require.Zero(t, rt.count())
}

// A body that breaks off is a failure, even of a 2xx.
func TestSend_truncatedBodyIsRetried(t *testing.T) {
	t.Parallel()
	cut := func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.MultiReader(
			http.NoBody, &failingReader{}))}, nil
	}
	rt := script(cut, answer(200, "whole", wire.HeaderReplayed+": true"))
	resp, err := newClient(t, over(rt)).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, "whole", string(resp.Body))

	failed := failure(t, newClient(t, over(script(cut))), post(stubURL))
	require.Equal(t, retry.Unknown, failed.Outcome)
	require.ErrorIs(t, failed, retry.ErrTruncated)
	require.ErrorIs(t, failed, errBroken)
	require.Equal(t, 4, failed.Attempts)
}

type failingReader struct{}

func (*failingReader) Read([]byte) (int, error) { return 0, errBroken }

func TestSend_responseCap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		body string
		ok   bool
	}{{"shorter", "123", true}, {"exact", "1234", true}, {"longer", "12345", false}} {
		rt := script(answer(200, tt.body))
		cfg := over(rt)
		cfg.MaxResponseBytes = 4
		resp, err := newClient(t, cfg).Send(t.Context(), post(stubURL))
		require.Equal(t, 1, rt.count(), tt.name)
		if tt.ok {
			require.NoError(t, err, tt.name)
			require.Equal(t, tt.body, string(resp.Body), tt.name)
			continue
		}
		require.ErrorIs(t, err, retry.ErrResponseTooLarge)
		require.ErrorIs(t, err, retry.ErrCompleted)
	}
}
