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

// "Not retryable" is passed up whatever else the answer says: also where the client itself
// would not have gone on, those above it would.
func TestSend_notRetryableIsPassedUp(t *testing.T) {
	t.Parallel()
	const forbids = wire.HeaderShouldRetry + ": false"
	tests := []struct {
		name string
		step step
		want retry.Outcome
	}{
		{"unavailable", status(503, forbids), retry.Unknown},
		{"turned away", status(429, forbids), retry.Rejected},
		{"refused", status(400, forbids), retry.Rejected},
		{"stored refusal", status(402, forbids, wire.HeaderReplayed+": true"), retry.Rejected},
		{"stored failure", status(500, forbids, wire.HeaderReplayed+": true"), retry.Unknown},
		{"stored redirect", status(303, forbids, wire.HeaderReplayed+": true"), retry.Completed},
		{"poisoned", problem(wire.Poisoned, forbids), retry.Unknown},
		{"nobody knows", problem(wire.OutcomeUnknown, forbids), retry.Unknown},
		{"unreadable", problem(wire.RecordUnreadable, forbids), retry.Unknown},
		{"key reused", problem(wire.KeyReused, forbids), retry.Rejected},
		{"answer gone", problem(wire.ResponseGone, forbids), retry.Completed},
		{"in progress", problem(wire.InProgress, forbids), retry.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.step)
			failed := failure(t, newClient(t, over(rt)), post(stubURL))
			require.ErrorIs(t, failed, wire.ErrNotRetryable)
			require.Equal(t, tt.want, failed.Outcome)
			require.False(t, failed.Retryable)
			require.Equal(t, 1, rt.count())
		})
	}
	t.Run("not where other credentials can help", func(t *testing.T) {
		t.Parallel()
		for _, step := range []step{status(401, forbids), problem(wire.ScopeMissing, forbids)} {
			failed := failure(t, newClient(t, over(script(step))), post(stubURL))
			require.Equal(t, retry.Rejected, failed.Outcome)
			require.NotErrorIs(t, failed, wire.ErrNotRetryable)
		}
	})
	t.Run("not of a 2xx", func(t *testing.T) {
		t.Parallel()
		_, err := newClient(t, over(script(status(200, forbids)))).Send(t.Context(), post(stubURL))
		require.NoError(t, err)
	})
}

func TestSend_classifyForbidsRetry(t *testing.T) {
	t.Parallel()
	rt := script(status(500, "X-Retry: never"))
	profile := &retry.Profile{Classify: func(a retry.Answer) (retry.Verdict, bool) {
		v := a.Verdict()
		v.NotRetryable = a.Header.Get("X-Retry") == "never"
		return v, true
	}}
	failed := failure(t, newClient(t, under(profile, over(rt))), post(stubURL))
	require.ErrorIs(t, failed, retry.ErrNotRetryable)
	require.Equal(t, 1, rt.count())
}

// A Classify may know better than the header when to come again.
func TestSend_classifySaysWhen(t *testing.T) {
	t.Parallel()
	rt := script(status(503, wire.HeaderRetryAfter+": 1"), status(200))
	later := &retry.Profile{Classify: func(a retry.Answer) (retry.Verdict, bool) {
		v := a.Verdict()
		v.RetryAfter = 5 * time.Second
		return v, true
	}}
	bubble(t, rt, func(cfg *retry.Config) { cfg.Profile = later }, func(t *testing.T, c *retry.Client) {
		_, err := c.Send(t.Context(), post(stubURL))
		require.NoError(t, err)
		require.Equal(t, []time.Duration{5 * time.Second}, rt.waits())
	})
}

// A redirect that the callee's marker calls a handler's answer is not followed.
func TestSend_markedRedirect(t *testing.T) {
	t.Parallel()
	rt := script(status(307, "Location: /there", "X-Seen: first"), status(400))
	profile := &retry.Profile{Replayed: func(h http.Header) (replayed, honoured bool) { return false, h.Get("X-Seen") != "" }}
	failed := failure(t, newClient(t, under(profile, over(rt))), post(stubURL))
	require.Equal(t, retry.Completed, failed.Outcome)
	require.Equal(t, 1, rt.count())
}

func TestDo_notRetryable(t *testing.T) {
	t.Parallel()
	made := 0
	_, err := retry.Do(t.Context(), newClient(t, retry.Config{}), retry.Task{Key: key},
		func(context.Context, retry.Attempt) (int, error) { made++; return 0, errBroken },
		func(int, error) retry.Verdict { return retry.Verdict{Action: retry.Retry, NotRetryable: true} })
	require.ErrorIs(t, err, wire.ErrNotRetryable)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, 1, made)
}

// The callee's own marker tells repetitions, in answers of every status.
func TestSend_marker(t *testing.T) {
	t.Parallel()
	call := post(stubURL)
	profile := &retry.Profile{Replayed: func(h http.Header) (replayed, honoured bool) {
		return h.Get("X-Seen") == "before", h.Get("X-Seen") != ""
	}}
	says := func(rt *stub) *retry.Client { return newClient(t, under(profile, over(rt))) }
	resp, err := says(script(status(503), status(200, "X-Seen: before"))).Send(t.Context(), call)
	require.NoError(t, err)
	require.True(t, resp.Replayed)
	resp, err = says(script(status(200, "X-Seen: first", wire.HeaderReplayed+": true"))).Send(t.Context(), call)
	require.NoError(t, err)
	require.False(t, resp.Replayed, "only its own marker counts")

	// A stored refusal speaks for the attempt that was lost, and a stored failure stays.
	failed := failure(t, says(script(fails(errBroken), status(402, "X-Seen: before"))), call)
	require.Equal(t, retry.Rejected, failed.Outcome)
	rt := script(status(500, "X-Seen: before"))
	failure(t, says(rt), call)
	require.Equal(t, 1, rt.count())

	// A Classify sees what the answer says of the key.
	profile.Classify = func(a retry.Answer) (retry.Verdict, bool) {
		require.True(t, a.Honoured && a.Replayed)
		return retry.Verdict{}, false
	}
	failed = failure(t, says(script(status(402, "X-Seen: before"))), call)
	require.Equal(t, retry.Rejected, failed.Outcome)
}

// The outcome that a Classify proved is kept, also when it asks for another attempt.
func TestSend_classifiedAndRetried(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ classified, want retry.Outcome }{
		{retry.Rejected, retry.Rejected}, {retry.Completed, retry.Completed},
	} {
		profile := &retry.Profile{Classify: func(retry.Answer) (retry.Verdict, bool) {
			return retry.Verdict{Outcome: tt.classified, Proven: true, Action: retry.Retry}, true
		}}
		failed := failure(t, newClient(t, under(profile, over(script(status(409), fails(errDial))))), post(stubURL))
		require.Equal(t, tt.want, failed.Outcome)
		failed = failure(t, newClient(t, under(profile, over(script(status(409), problem(wire.KeyCancelled))))), post(stubURL))
		require.Equal(t, tt.want, failed.Outcome)
	}
}
