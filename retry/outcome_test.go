package retry_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

var errDial = &net.OpError{Op: "dial", Net: "tcp", Err: errBroken}

func TestSend_outcomeOfSeveralAttempts(t *testing.T) {
	t.Parallel()
	stored := wire.HeaderReplayed + ": true"
	first := wire.HeaderReplayed + ": false"
	tests := []struct {
		name  string
		steps []step
		want  retry.Outcome
	}{
		{"never connected", []step{fails(errDial)}, retry.NotSent},
		{"turned away, then not connected", []step{status(429), fails(errDial)}, retry.Rejected},
		{"not connected, then refused", []step{fails(errDial), status(400)}, retry.Rejected},
		{"lost, then not connected", []step{fails(errBroken), fails(errDial)}, retry.Unknown},
		{"lost, then 401 from a gateway", []step{fails(errBroken), status(401)}, retry.Unknown},
		{"lost, then 403 from a gateway", []step{fails(errBroken), status(403)}, retry.Unknown},
		{"lost, then 429 from a gateway", []step{fails(errBroken), status(429)}, retry.Unknown},
		{"lost, then an unmarked 402", []step{fails(errBroken), status(402)}, retry.Unknown},
		{"lost, then a stored 402", []step{fails(errBroken), status(402, stored)}, retry.Rejected},
		{"lost, then 402 of the first run", []step{fails(errBroken), status(402, first)}, retry.Rejected},
		// A released claim: the lost attempt may still arrive, and run.
		{"lost, then 403 of the first run", []step{fails(errBroken), status(403, first)}, retry.Unknown},
		{"lost, then a malformed marker", []step{fails(errBroken), status(402, wire.HeaderReplayed+": yes")}, retry.Unknown},
		{"503, then 404 from a router", []step{status(503), status(404)}, retry.Unknown},
		{"a stored 500", []step{status(500, stored)}, retry.Unknown},
		{"a stored 303", []step{status(303, first, "Location: /elsewhere")}, retry.Completed},
		{"an unmarked 307 elsewhere", []step{status(307, "Location: http://elsewhere.test/")}, retry.Rejected},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			failed := failure(t, newClient(t, over(script(tt.steps...))), post(stubURL))
			require.Equal(t, tt.want, failed.Outcome, "%v", failed)
		})
	}
}

func TestSend_resumedStartsUnknown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		step step
		want retry.Outcome
	}{
		{"not connected", fails(errDial), retry.Unknown},
		{"unmarked 400", status(400), retry.Unknown},
		{"stored 402", status(402, wire.HeaderReplayed+": true"), retry.Rejected},
		{"cancelled", problem(wire.KeyCancelled), retry.Rejected},
		{"gone", problem(wire.ResponseGone), retry.Completed},
		// The other payload may be this call, as the earlier process spelled it.
		{"key reused", problem(wire.KeyReused), retry.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			call := post(stubURL)
			call.Resumed = true
			failed := failure(t, newClient(t, over(script(tt.step))), call)
			require.Equal(t, tt.want, failed.Outcome)
			require.NotEmpty(t, failed.Evidence)
		})
	}
	t.Run("ctx already done", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		call := post(stubURL)
		call.Resumed = true
		rt := script(status(200))
		failed := failureContext(t, ctx, newClient(t, over(rt)), call)
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Zero(t, rt.count())
	})
}

func TestSend_notRetryableStops(t *testing.T) {
	t.Parallel()
	rt := script(status(503, wire.HeaderShouldRetry+": false"))
	failed := failure(t, newClient(t, over(rt)), post(stubURL))
	require.ErrorIs(t, failed, retry.ErrNotRetryable)
	require.ErrorIs(t, failed, wire.ErrNotRetryable, "what a guarded handler passes up")
	require.False(t, failed.Retryable)
	require.Equal(t, 1, rt.count())

	// An advice to retry retries nothing that the table stops at.
	rt = script(status(400, wire.HeaderShouldRetry+": true"))
	failure(t, newClient(t, over(rt)), post(stubURL))
	require.Equal(t, 1, rt.count())
}

// A 409 to a call with a key may mean that an earlier attempt is still running. It counts
// as a refusal only if the callee shows that it honoured the key.
func TestSend_keyedConflictIsUnclear(t *testing.T) {
	t.Parallel()
	draft := answer(409, `{"type":"https://payment.test/idempotency","title":"A request is outstanding for this Idempotency-Key"}`,
		"Content-Type: application/problem+json")
	unkeyed := post(stubURL)
	unkeyed.Key = childkey.Key{}
	resumed := post(stubURL)
	resumed.Resumed = true
	tests := []struct {
		name    string
		call    retry.Call
		steps   []step
		outcome retry.Outcome
		sent    int
	}{
		{"bare", post(stubURL), []step{status(409)}, retry.Unknown, 3},
		{"as in the draft", post(stubURL), []step{draft}, retry.Unknown, 3},
		{"not our problem", post(stubURL), []step{answer(409, `{"code":"in-progress"}`, "Content-Type: application/json")}, retry.Unknown, 3},
		{"then done", post(stubURL), []step{draft, status(201)}, retry.Completed, 2},
		{"then refused", post(stubURL), []step{draft, status(402)}, retry.Unknown, 2},
		{"then a stored refusal", post(stubURL), []step{draft, status(402, wire.HeaderReplayed+": true")}, retry.Rejected, 2},
		{"of the run itself", post(stubURL), []step{status(409, wire.HeaderReplayed+": false")}, retry.Rejected, 1},
		{"stored", post(stubURL), []step{status(409, wire.HeaderReplayed+": true")}, retry.Rejected, 1},
		{"stored, in a resumed call", resumed, []step{status(409, wire.HeaderReplayed+": true")}, retry.Rejected, 1},
		{"not retryable", post(stubURL), []step{status(409, wire.HeaderShouldRetry+": false")}, retry.Unknown, 1},
		{"without a key", unkeyed, []step{status(409)}, retry.Rejected, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.steps...)
			cfg := over(rt)
			cfg.MaxAttempts = 3
			_, err := newClient(t, cfg).Send(t.Context(), tt.call)
			outcome := retry.Completed
			if err != nil {
				var failed *retry.Error
				require.ErrorAs(t, err, &failed)
				outcome = failed.Outcome
			}
			require.Equal(t, tt.outcome, outcome, "%v", err)
			require.Equal(t, tt.sent, rt.count())
		})
	}
}

// Waiting for a run in progress spends no attempt.
func TestSend_waitsForARunInProgress(t *testing.T) {
	t.Parallel()
	rt := script(problem(wire.InProgress), problem(wire.LeaseLost), problem(wire.InProgress),
		problem(wire.InProgress), problem(wire.InProgress), answer(201, "done", wire.HeaderReplayed+": true"))
	resp, err := newClient(t, over(rt)).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, 6, resp.Attempts) // more than MaxAttempts: questions are no attempts
	require.True(t, resp.Replayed)
	require.Equal(t, "done", string(resp.Body))
}

func TestSend_classifyReadsAnswersOfItsCallee(t *testing.T) {
	t.Parallel()
	classify := func(a retry.Answer) (retry.Verdict, bool) {
		return retry.Verdict{Outcome: retry.Unknown, Action: retry.Wait}, a.Status == 409 && a.Header.Get("X-Busy") != ""
	}
	rt := script(status(409, "X-Busy: 1"), status(200))
	profile := &retry.Profile{Classify: classify}
	_, err := newClient(t, under(profile, over(rt))).Send(t.Context(), post(stubURL))
	require.NoError(t, err)

	rt = script(problem(wire.OutcomeUnknown, "X-Busy: 1")) // our code goes first
	failed := failure(t, newClient(t, under(profile, over(rt))), post(stubURL))
	require.Equal(t, 1, rt.count())
	require.Equal(t, wire.OutcomeUnknown, failed.Code)
}

// A call without a key that may have an effect is repeated only where nothing was done.
func TestSend_unkeyedPostIsSentOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		method string
		step   step
		want   int
	}{
		{"POST, 503", http.MethodPost, status(503), 1},
		{"POST, 429", http.MethodPost, status(429, "Retry-After: 0"), 4},
		{"POST, 425", http.MethodPost, status(425), 4},
		{"POST, 421", http.MethodPost, status(421), 4},
		{"POST, refused before the claim", http.MethodPost, problem(wire.ScopeUnavailable), 4},
		{"POST, 429, not retryable", http.MethodPost, status(429, wire.HeaderShouldRetry+": false"), 1},
		{"POST, 400", http.MethodPost, status(400), 1},
		{"POST, lost", http.MethodPost, fails(errBroken), 1},
		{"PATCH, 503", http.MethodPatch, status(503), 1},
		{"POST, not connected", http.MethodPost, fails(errDial), 4},
		{"PUT, 503", http.MethodPut, status(503), 4},
		{"DELETE, lost", http.MethodDelete, fails(errBroken), 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := script(tt.step)
			call := post(stubURL)
			call.Method, call.Key = tt.method, childkey.Key{}
			failure(t, newClient(t, over(rt)), call)
			require.Equal(t, tt.want, rt.count())
		})
	}
}

func TestOutcome_String(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Unknown NotSent Rejected Completed Unknown stop retry wait",
		retry.Unknown.String()+" "+retry.NotSent.String()+" "+retry.Rejected.String()+" "+retry.Completed.String()+
			" "+retry.Outcome(9).String()+" "+retry.Stop.String()+" "+retry.Retry.String()+" "+retry.Wait.String())
}
