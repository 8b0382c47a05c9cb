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

// A veto is passed up whatever else the answer says: also where the client itself
// would not have gone on, those above it would.
func TestSend_vetoIsPassedUp(t *testing.T) {
	t.Parallel()
	const veto = wire.HeaderShouldRetry + ": false"
	tests := []struct {
		name string
		step step
		want retry.Outcome
	}{
		{"unavailable", status(503, veto), retry.Unknown},
		{"turned away", status(429, veto), retry.Rejected},
		{"refused", status(400, veto), retry.Rejected},
		{"stored refusal", status(402, veto, wire.HeaderReplayed+": true"), retry.Rejected},
		{"stored failure", status(500, veto, wire.HeaderReplayed+": true"), retry.Unknown},
		{"stored redirect", status(303, veto, wire.HeaderReplayed+": true"), retry.Completed},
		{"poisoned", problem(wire.Poisoned, veto), retry.Unknown},
		{"nobody knows", problem(wire.OutcomeUnknown, veto), retry.Unknown},
		{"unreadable", problem(wire.RecordUnreadable, veto), retry.Unknown},
		{"key reused", problem(wire.KeyReused, veto), retry.Rejected},
		{"answer gone", problem(wire.ResponseGone, veto), retry.Completed},
		{"in progress", problem(wire.InProgress, veto), retry.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.step)
			failed := failure(t, newClient(t, over(rt)), post(stubURL))
			require.ErrorIs(t, failed, wire.ErrVetoed)
			require.Equal(t, tt.want, failed.Outcome)
			require.False(t, failed.Retryable)
			require.Equal(t, 1, rt.count())
		})
	}
	t.Run("not where other credentials can help", func(t *testing.T) {
		t.Parallel()
		for _, step := range []step{status(401, veto), problem(wire.ScopeMissing, veto)} {
			failed := failure(t, newClient(t, over(script(step))), post(stubURL))
			require.Equal(t, retry.Rejected, failed.Outcome)
			require.NotErrorIs(t, failed, wire.ErrVetoed)
		}
	})
	t.Run("not of a 2xx", func(t *testing.T) {
		t.Parallel()
		_, err := newClient(t, over(script(status(200, veto)))).Send(t.Context(), post(stubURL))
		require.NoError(t, err)
	})
}

func TestSend_judgeVetoes(t *testing.T) {
	t.Parallel()
	rt := script(status(500, "X-Retry: never"))
	profile := &retry.Profile{Judge: func(a retry.Answer) (retry.Verdict, bool) {
		v := a.Verdict()
		v.Vetoed = a.Header.Get("X-Retry") == "never"
		return v, true
	}}
	failed := failure(t, newClient(t, under(profile, over(rt))), post(stubURL))
	require.ErrorIs(t, failed, retry.ErrVetoed)
	require.Equal(t, 1, rt.count())
}

// A judge may know better than the header when to come again.
func TestSend_judgeSaysWhen(t *testing.T) {
	t.Parallel()
	rt := script(status(503, wire.HeaderRetryAfter+": 1"), status(200))
	later := &retry.Profile{Judge: func(a retry.Answer) (retry.Verdict, bool) {
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

func TestDo_veto(t *testing.T) {
	t.Parallel()
	made := 0
	_, err := retry.Do(t.Context(), newClient(t, retry.Config{}), retry.Task{Key: key},
		func(context.Context, retry.Attempt) (int, error) { made++; return 0, errBroken },
		func(int, error) retry.Verdict { return retry.Verdict{Action: retry.Retry, Vetoed: true} })
	require.ErrorIs(t, err, wire.ErrVetoed)
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

	// A judge sees what the marker says.
	profile.Judge = func(a retry.Answer) (retry.Verdict, bool) {
		require.True(t, a.Honoured && a.Replayed)
		return retry.Verdict{}, false
	}
	failed = failure(t, says(script(status(402, "X-Seen: before"))), call)
	require.Equal(t, retry.Rejected, failed.Outcome)
}

// What a judge says of one attempt is kept, also when it then wants another.
func TestSend_judgedAndRetried(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ judged, want retry.Outcome }{
		{retry.Rejected, retry.Rejected}, {retry.Completed, retry.Completed},
	} {
		profile := &retry.Profile{Judge: func(retry.Answer) (retry.Verdict, bool) {
			return retry.Verdict{Outcome: tt.judged, Proven: true, Action: retry.Retry}, true
		}}
		failed := failure(t, newClient(t, under(profile, over(script(status(409), fails(errDial))))), post(stubURL))
		require.Equal(t, tt.want, failed.Outcome)
		failed = failure(t, newClient(t, under(profile, over(script(status(409), problem(wire.KeyCancelled))))), post(stubURL))
		require.Equal(t, tt.want, failed.Outcome)
	}
}
