package retry_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/contract"
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

// The text of a service's own problem reaches the caller.
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

// A refusal reaches the caller with its code, its detail and its body, whoever wrote it.
func TestSend_refusalOfAnyAuthor(t *testing.T) {
	t.Parallel()
	const inJSON = "application/json; charset=utf-8"
	for _, tt := range []struct {
		name, contentType, body string
		code, detail            string
	}{
		{"Stripe", inJSON, `{"error":{"code":"card_declined","decline_code":"no_funds","message":"Declined.","type":"card_error"}}`, "card_declined", "Declined."},
		{"Stripe, without a code", inJSON, `{"error":{"message":"Bad key.","type":"invalid_request_error"}}`, "invalid_request_error", "Bad key."},
		{"Google", inJSON, `{"error":{"code":404,"message":"No such book.","status":"NOT_FOUND"}}`, "NOT_FOUND", "No such book."},
		{"Square", inJSON, `{"errors":[{"category":"PAYMENT","code":"CVV_FAILURE","detail":"Wrong."},{"code":"OTHER"}]}`, "CVV_FAILURE", "Wrong."},
		{"Adyen", inJSON, `{"status":422,"errorCode":"14_030","message":"Missing."}`, "14_030", "Missing."},
		{"Twilio", inJSON, `{"code":20404,"message":"Not here.","status":404}`, "20404", "Not here."},
		{"OAuth", inJSON, `{"error":"invalid_scope","error_description":"Too wide."}`, "invalid_scope", "Too wide."},
		{"Nest", inJSON, `{"statusCode":400,"message":"amount is negative","error":"Bad Request"}`, "", "amount is negative"},
		{"Spring", inJSON, `{"status":404,"error":"Not Found","path":"/x"}`, "", "Not Found"},
		{"a problem as JSON", inJSON, `{"type":"about:blank","title":"Declined","detail":"No funds.","code":"declined"}`, "declined", "No funds."},
		{"a problem", wire.ProblemContentType, `{"detail":"No funds.","code":"declined","error":{"code":"not this"}}`, "declined", "No funds."},
		{"a media type of JSON", "application/vnd.api+json", `{"errors":[{"code":"c","title":"t"}]}`, "c", "t"},
		{"no media type", "", `{"code":"c"}`, "c", ""},
		{"plain text", "text/plain; charset=utf-8", "no funds\n", "", "no funds"},
		{"text that could be JSON", "text/plain", `{"code":"c"}`, "", `{"code":"c"}`},
		{"a page", "text/html", "<html>no</html>", "", ""},
		{"nothing of use", inJSON, `{"ok":false,"code":null,"error":[],"errors":{},"message":7}`, "", ""},
		{"no object", inJSON, `["declined"]`, "", ""},
		{"null", inJSON, `null`, "", ""},
		{"half of it", inJSON, `{"code":"declined"`, "", ""},
		{"errors of nothing", inJSON, `{"errors":[null],"code":"c"}`, "c", ""},
		{"could be taken for ours", inJSON, `{"error":{"code":"key-reused","message":"m"}}`, "", "m"},
		{"no body", inJSON, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, over(script(answer(402, tt.body, "Content-Type: "+tt.contentType, "Idempotent-Replayed: false"))))
			failed := failure(t, c, post(stubURL))
			require.Equal(t, retry.Rejected, failed.Outcome)
			require.Equal(t, wire.Code(tt.code), failed.Code)
			require.Equal(t, tt.detail, failed.Detail)
			require.Equal(t, tt.body, string(failed.Body))
			require.NotErrorIs(t, failed, retry.ErrKeyReused)
		})
	}
}

func TestError_Decode(t *testing.T) {
	t.Parallel()
	stripe := script(answer(402, `{"error":{"code":"card_declined","decline_code":"no_funds"}}`, "Content-Type: application/json"))
	failed := failure(t, newClient(t, over(stripe)), post(stubURL))
	var declined struct {
		Error struct {
			DeclineCode string `json:"decline_code"`
		}
	}
	require.NoError(t, failed.Decode(&declined))
	require.Equal(t, "no_funds", declined.Error.DeclineCode)
	for name, body := range map[string]string{"none": "", "text": "no funds", "half": `{"error":`, "another type": `{"error":7}`} {
		failed := &retry.Error{Body: []byte(body)}
		require.ErrorIs(t, failed.Decode(&declined), contract.ErrBody, name)
	}
}

// The text of a callee does not decide: only the answer's status and our own codes do.
func FuzzSend_refusal(f *testing.F) {
	f.Add("application/json", []byte(`{"error":{"code":"card_declined"}}`))
	f.Add(wire.ProblemContentType, []byte(`{"code":"key-cancelled","type":"about:blank"}`))
	f.Add("text/plain", []byte("in-progress"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		if _, ours := wire.ParseProblem(contentType, body); ours {
			return
		}
		step := func(req *http.Request) (*http.Response, error) {
			resp, err := answer(402, string(body))(req)
			resp.Header["Content-Type"] = []string{contentType}
			return resp, err
		}
		failed := failure(t, newClient(t, over(script(step))), post(stubURL))
		require.Equal(t, retry.Rejected, failed.Outcome)
		require.True(t, utf8.ValidString(failed.Detail) && utf8.ValidString(string(failed.Code)))
		require.LessOrEqual(t, len(failed.Detail), 1024)
		require.LessOrEqual(t, len(failed.Code), 1024)
		_, taken := failed.Code.Situation()
		require.False(t, taken)
	})
}
