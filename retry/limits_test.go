package retry_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// ways are the ways to make a call that has limits of its own.
var ways = map[string]func(ctx context.Context, c *retry.Client, l retry.Limits) error{
	"Send": func(ctx context.Context, c *retry.Client, l retry.Limits) error {
		call := post(stubURL)
		call.Limits = l
		_, err := c.Send(ctx, call)
		return err
	},
	"Exchange": func(ctx context.Context, c *retry.Client, l retry.Limits) error {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, nil)
		resp, failed := c.Exchange(req, func(call *retry.Call) error {
			call.Key, call.Service, call.Limits = key, "payment", l
			return nil
		})
		if failed == nil {
			return closed(resp, nil)
		}
		return failed
	},
	"not HTTP": func(ctx context.Context, c *retry.Client, l retry.Limits) error {
		task := retry.Task{Service: "payment", Key: key, Limits: l}
		_, err := retry.Do(ctx, c, task, func(ctx context.Context, _ retry.Attempt) (any, error) {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, stubURL, nil)
			resp, err := c.RoundTripper().RoundTrip(req)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = errBroken
			}
			return nil, closed(resp, err)
		}, nil)
		return err
	},
}

// A call's own limits go before those of its client, and may be longer. Other calls keep the client's.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, call := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := script(status(503))
			bubble(t, rt, nil, func(t *testing.T, c *retry.Client) {
				for _, attempts := range []int{1, 2, 7, 0} {
					before := rt.count()
					require.Error(t, call(t.Context(), c, retry.Limits{MaxAttempts: attempts}))
					want := attempts
					if want == 0 {
						want = 4 // the client's
					}
					require.Equal(t, want, rt.count()-before)
				}
			})
			slow := script(hangs)
			bubble(t, slow, func(cfg *retry.Config) { cfg.Timeout, cfg.AttemptTimeout = 10*time.Second, 10*time.Second }, func(t *testing.T, c *retry.Client) {
				for _, tt := range []struct {
					limits retry.Limits
					took   time.Duration
				}{
					{retry.Limits{}, 10 * time.Second},
					{retry.Limits{Timeout: time.Second}, time.Second},
					{retry.Limits{Timeout: time.Hour, AttemptTimeout: time.Hour}, time.Hour},
					{retry.Limits{Timeout: time.Hour, MaxAttempts: 2}, 20*time.Second + 100*ms},
					{retry.Limits{AttemptTimeout: time.Second, MaxAttempts: 2}, 2*time.Second + 100*ms},
				} {
					start := time.Now()
					require.Error(t, call(t.Context(), c, tt.limits))
					require.Equal(t, tt.took, time.Since(start), "%+v", tt.limits)
				}
			})
			none := script(status(200))
			c := newClient(t, over(none))
			for _, bad := range []retry.Limits{{MaxAttempts: -1}, {Timeout: -1}, {AttemptTimeout: -1}} {
				err := call(t.Context(), c, bad)
				require.ErrorIs(t, err, retry.ErrInvalid)
				require.ErrorIs(t, err, retry.ErrNotSent)
			}
			require.Zero(t, none.count())
		})
	}
	bad := post(stubURL)
	bad.Limits.Timeout = -1
	require.ErrorIs(t, newClient(t, quick).Check(bad), retry.ErrInvalid)
}

// A call that makes one attempt leaves the retries below to the callee.
func TestLimits_tellTheCallee(t *testing.T) {
	t.Parallel()
	rt := script(status(200))
	c := newClient(t, over(rt))
	for _, attempts := range []int{1, 2} {
		call := post(stubURL)
		call.Limits.MaxAttempts = attempts
		_, err := c.Send(t.Context(), call)
		require.NoError(t, err)
	}
	require.Equal(t, " 0", rt.header(wire.HeaderRetryAllowance))
}
