package retry_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

const problemType = "Content-Type: " + wire.ProblemContentType

// The header says who refused the call, whatever shape the body has. Without it a
// rendered 409 would count as Rejected, and its undo would be left out.
func TestSend_codeInTheHeader(t *testing.T) {
	t.Parallel()
	foreign := `{"error":{"code":"busy"}}`
	for _, s := range wire.Situations() {
		want, _ := retry.CodeVerdict(s.Code)
		for _, status := range []int{s.Status, 409, 500} {
			for name, body := range map[string]string{
				"own shape": foreign, "no body": "", "a problem of the service": `{"code":"declined","detail":"d"}`,
				"a problem with another of our codes": string(wire.NewProblem(wire.KeyCancelled, "").JSON()),
			} {
				cfg := over(script(answer(status, body, "Idempotency-Code: "+string(s.Code), problemType)))
				cfg.MaxAttempts, cfg.MaxPolls = 1, 1
				failed := failure(t, newClient(t, cfg), post(stubURL))
				require.Equal(t, want.Outcome, failed.Outcome, "%s: %d, %s", s.Code, status, name)
				require.Equal(t, s.Code, failed.Code)
			}
		}
	}
}

// A value that is none of our codes says nothing.
func TestSend_unknownCodeInTheHeader(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "teapot", "IN-PROGRESS", "in-progress, poisoned"} {
		failed := failure(t, newClient(t, over(script(answer(402, "", "Idempotency-Code: "+value)))), post(stubURL))
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.Empty(t, failed.Code, "%q", value)
	}
}

// What a service says in a problem of its own reaches the caller.
func TestSend_problemOfTheService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body   string
		code, detail string
	}{
		{"code and detail", `{"type":"about:blank","code":"declined","detail":"No funds."}`, "declined", "No funds."},
		{"no code", `{"detail":"No funds."}`, "", "No funds."},
		{"code of another type", `{"code":7,"detail":"No funds."}`, "", "No funds."},
		{"could be taken for ours", `{"type":"about:blank","code":"key-reused","detail":"d"}`, "", "d"},
		{"control characters", `{"code":"a\u0000b","detail":"x\ny\u0000\u001b[1m"}`, "a b", "x y  [1m"},
		{"no text", "{\"code\":\"a\xff\",\"detail\":\"\xff\"}", "a\uFFFD", "\uFFFD"},
	} {
		failed := failure(t, newClient(t, over(script(answer(402, tt.body, problemType, "Idempotent-Replayed: false")))), post(stubURL))
		require.Equal(t, retry.Rejected, failed.Outcome, tt.name)
		require.Equal(t, wire.Code(tt.code), failed.Code, tt.name)
		require.Equal(t, tt.detail, failed.Detail, tt.name)
		require.NotErrorIs(t, failed, retry.ErrKeyReused)
	}
	long := strings.Repeat("ä", 2000)
	failed := failure(t, newClient(t, over(script(answer(402, `{"code":"`+long+`","detail":"`+long+`"}`, problemType)))), post(stubURL))
	require.LessOrEqual(t, len(failed.Detail), 1024)
	require.Greater(t, len(failed.Detail), 1000)
	require.True(t, utf8.ValidString(failed.Detail))
	require.LessOrEqual(t, len(failed.Code), 1024)
}

// The detail of our own problems is for people too.
func TestSend_detailOfOurProblem(t *testing.T) {
	t.Parallel()
	body := string(wire.NewProblem(wire.KeyReused, "A key belongs to one request.").JSON())
	failed := failure(t, newClient(t, over(script(answer(422, body, problemType)))), post(stubURL))
	require.Equal(t, wire.KeyReused, failed.Code)
	require.Equal(t, "A key belongs to one request.", failed.Detail)
	require.NotContains(t, failed.Error(), "one request", "it may speak of people")
}

// A callee that is still finding out says so: the call waits, and Retry-After says how
// long. Without that word outcome-unknown is a dead end.
func TestSend_undecided(t *testing.T) {
	t.Parallel()
	const soon, again = "Retry-After-Ms: 5", "Idempotency-Should-Retry: true"
	rt := script(problem(wire.OutcomeUnknown, soon, again), problem(wire.OutcomeUnknown, soon, again), status(201, "Idempotent-Replayed: true"))
	resp, err := newClient(t, over(rt)).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, 201, resp.Status)
	require.GreaterOrEqual(t, rt.times[1].Sub(rt.times[0]), 5*time.Millisecond)

	requireUninvited(t, wire.OutcomeUnknown)
}

// requireUninvited checks that a code which no retry follows by itself stays a dead end
// without a clear word.
func requireUninvited(t *testing.T, code wire.Code) {
	t.Helper()
	for _, headers := range [][]string{nil, {"Idempotency-Should-Retry: false"}, {"Idempotency-Should-Retry: perhaps"}} {
		rt := script(problem(code, headers...))
		failed := failure(t, newClient(t, over(rt)), post(stubURL))
		require.Equal(t, retry.Unknown, failed.Outcome)
		require.Equal(t, 1, rt.count())
		require.False(t, failed.Retryable)
	}
}

// A callee whose completion failed for a reason that may pass invites a retry, which runs
// the request again.
func TestSend_completionFailed(t *testing.T) {
	t.Parallel()
	const soon, again = "Retry-After-Ms: 5", "Idempotency-Should-Retry: true"
	rt := script(problem(wire.TransactionFailed, soon, again), status(201, "Idempotent-Replayed: false"))
	resp, err := newClient(t, over(rt)).Send(t.Context(), post(stubURL))
	require.NoError(t, err)
	require.Equal(t, 201, resp.Status)
	require.GreaterOrEqual(t, rt.times[1].Sub(rt.times[0]), 5*time.Millisecond)
	requireUninvited(t, wire.TransactionFailed)
}
