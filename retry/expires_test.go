package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// No attempt begins when the callee may have forgotten the first: it would run again.
func TestSend_expires(t *testing.T) {
	t.Parallel()
	t.Run("before the first attempt", func(t *testing.T) {
		t.Parallel()
		rt := script(status(200))
		call := post(stubURL)
		call.Expires = time.Now()
		failed := failure(t, newClient(t, over(rt)), call)
		require.ErrorIs(t, failed, retry.ErrKeyExpired)
		require.Equal(t, retry.NotSent, failed.Outcome)
		require.NotEmpty(t, failed.Evidence)
		require.False(t, failed.Retryable)
		require.Zero(t, rt.count())
	})
	for _, tt := range []struct {
		name  string
		step  step
		left  time.Duration
		sent  int
		after time.Duration
	}{
		{"in the wait for the next", status(503, wire.HeaderRetryAfter+": 2"), 3 * time.Second, 2, 2 * time.Second},
		{"in the wait for a run in progress", problem(wire.InProgress), 250 * ms, 2, 200 * ms},
		// An attempt that has begun keeps its time: the callee saw it in time.
		{"in an attempt", hangs, 3 * time.Second, 2, 4100 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.step)
			change := func(cfg *retry.Config) {
				cfg.AttemptTimeout, cfg.Poll = 2*time.Second, retry.Backoff{Base: 200 * ms, Cap: 200 * ms}
			}
			bubble(t, rt, change, func(t *testing.T, c *retry.Client) {
				call, start := post(stubURL), time.Now()
				call.Expires = start.Add(tt.left)
				failed := failure(t, c, call)
				require.ErrorIs(t, failed, retry.ErrKeyExpired)
				require.NotErrorIs(t, failed, context.DeadlineExceeded)
				require.Equal(t, retry.Unknown, failed.Outcome)
				require.False(t, failed.Retryable)
				require.Equal(t, tt.sent, rt.count())
				require.Equal(t, tt.after, time.Since(start))
			})
		})
	}
}

// Where nothing can have taken effect nothing can run a second time.
func TestSend_expiresOnlyWhatMayHaveRun(t *testing.T) {
	t.Parallel()
	for _, first := range []step{fails(errDial), status(429, wire.HeaderRetryAfter+": 5")} {
		rt := script(first, status(503, wire.HeaderRetryAfter+": 1"))
		bubble(t, rt, func(cfg *retry.Config) { cfg.Backoff = retry.Backoff{Base: 5 * time.Second, Cap: 5 * time.Second} }, func(t *testing.T, c *retry.Client) {
			call := post(stubURL)
			call.Expires = time.Now().Add(3 * time.Second)
			failed := failure(t, c, call)
			require.ErrorIs(t, failed, retry.ErrKeyExpired, "now there is something to forget")
			require.Equal(t, retry.Unknown, failed.Outcome)
			require.Equal(t, 2, rt.count())
		})
	}
}

func TestDo_expires(t *testing.T) {
	t.Parallel()
	made := 0
	_, err := retry.Do(t.Context(), newClient(t, retry.Config{}), retry.Task{Key: key, Expires: time.Now()},
		func(context.Context, retry.Attempt) (int, error) { made++; return 0, nil }, nil)
	require.ErrorIs(t, err, retry.ErrKeyExpired)
	require.Zero(t, made)
}
