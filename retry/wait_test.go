package retry_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
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

// The reason that the caller gave its deadline stays in the chain, before the call and in it.
func TestSend_keepsTheCauseOfADeadline(t *testing.T) {
	t.Parallel()
	mine := errors.New("the shop closes")
	for _, left := range []time.Duration{-time.Second, 0, 30 * ms, time.Second} {
		bubble(t, script(hangs), nil, func(t *testing.T, c *retry.Client) {
			ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(left), mine)
			defer cancel()
			call := post(stubURL)
			call.Key = childkey.Key{} // one attempt, which ends with ctx
			failed := failureContext(t, ctx, c, call)
			require.ErrorIs(t, failed, mine, left)
			require.ErrorIs(t, failed, retry.ErrDeadline, left)
		})
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
		// Each attempt is told its own time, which leaves a third for the next.
		require.Equal(t, "1980 1913 491 30", rt.header(wire.HeaderRequestTimeout))
	})
}

// Where the whole call's time bounds its attempts, each hears of less than the one before.
func TestSend_eachAttemptIsToldLess(t *testing.T) {
	t.Parallel()
	rt := script(status(503))
	bubble(t, rt, func(cfg *retry.Config) { cfg.Timeout, cfg.AttemptTimeout = 5*time.Second, 4*time.Second }, func(t *testing.T, c *retry.Client) {
		failure(t, c, post(stubURL))
		require.Equal(t, "3313 3246 3113 3980", rt.header(wire.HeaderRequestTimeout))
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
		require.Equal(t, "646 135 13", rt.header(wire.HeaderRequestTimeout))
	})
}

// One attempt over a connection that is dead leaves time for another one, whichever
// deadline bounds the call.
func TestSend_noAttemptUsesTheWholeDeadline(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		deadline time.Duration // of ctx; 0: none
		change   func(*retry.Config)
		key      childkey.Key
		attempts int
	}{
		{"deadline of ctx", 3 * time.Second, nil, key, 2},
		{"Timeout", 0, func(cfg *retry.Config) { cfg.Timeout = 3 * time.Second }, key, 2},
		{"the only attempt", 3 * time.Second, func(cfg *retry.Config) { cfg.MaxAttempts = 1 }, key, 1},
		{"never sent again", 3 * time.Second, nil, childkey.Key{}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, script(hangs, status(201)), tt.change, func(t *testing.T, c *retry.Client) {
				ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(tt.deadline, time.Hour))
				defer cancel()
				call, start := post(stubURL), time.Now()
				call.Key = tt.key
				resp, err := c.Send(ctx, call)
				if tt.attempts == 1 {
					require.Error(t, err)
					require.Equal(t, 3*time.Second, time.Since(start), "it has all of the time")
					return
				}
				require.NoError(t, err)
				require.Equal(t, tt.attempts, resp.Attempts)
			})
		})
	}
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
