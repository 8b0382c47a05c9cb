package retry_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
)

// vendor is the profile of a service that answers 200 to everything, and says in the body what happened.
func vendor() *retry.Profile {
	return &retry.Profile{Classify: func(a retry.Answer) (retry.Verdict, bool) {
		var said struct {
			Error struct{ Code string }
		}
		if json.Unmarshal(a.Body, &said) != nil {
			return retry.Verdict{}, false
		}
		switch said.Error.Code {
		case "":
			return retry.Verdict{Outcome: retry.Completed}, true
		case "busy":
			return retry.Verdict{Outcome: retry.Rejected, Action: retry.Retry, Evidence: "busy"}, true
		}
		return retry.Verdict{Outcome: retry.Rejected, Evidence: "refused"}, true
	}}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// A profile says what a 2xx means. The caller gets the answer as it came.
func TestProfile_classifiesSuccess(t *testing.T) {
	t.Parallel()
	const refused, busy, good = `{"error":{"code":"card-declined","message":"no money"}}`, `{"error":{"code":"busy"}}`, `{"id":7}`
	long := `{"pad":"` + strings.Repeat("x", 100<<10) + `","error":{"code":"card-declined"}}`
	tests := []struct {
		name     string
		steps    []step
		outcome  retry.Outcome
		code     string
		attempts int
	}{
		{"success", []step{answer(200, good)}, retry.Completed, "", 1},
		{"no JSON", []step{answer(200, "fine")}, retry.Completed, "", 1},
		{"no body", []step{answer(204, "")}, retry.Completed, "", 1},
		{"refused", []step{answer(200, refused)}, retry.Rejected, "card-declined", 1},
		{"refused, encoded", []step{answer(200, zipped(refused), "Content-Encoding: gzip")}, retry.Rejected, "card-declined", 1},
		{"success, encoded", []step{answer(200, zipped(good), "Content-Encoding: gzip")}, retry.Completed, "", 1},
		{"busy, then success", []step{answer(200, busy), answer(201, good)}, retry.Completed, "", 2},
		{"busy", []step{answer(202, busy)}, retry.Rejected, "busy", 4},
		{"unknown, then refused", []step{status(502), answer(200, refused)}, retry.Unknown, "card-declined", 2},
		{"longer than is shown", []step{answer(200, long)}, retry.Completed, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := under(vendor(), over(script(tt.steps...)))
			cfg.Budget = &retry.Budget{Refill: 1e-9, Ratio: 1, Reserve: 50}
			c := newClient(t, cfg)
			resp, err := c.Send(t.Context(), post(stubURL))
			if tt.outcome == retry.Completed {
				require.NoError(t, err)
				require.Equal(t, tt.attempts, resp.Attempts)
				return
			}
			var failed *retry.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, []any{tt.outcome, tt.code, tt.attempts}, []any{failed.Outcome, string(failed.Code), failed.Attempts})
			require.Equal(t, 2, failed.Status/100)
			require.NotEmpty(t, failed.Body)
			require.InDelta(t, 50-float64(tt.attempts-1), cfg.Budget.Left("payment"), 0.01, "it is no success")
		})
	}
}

// What net/http's callers get is the answer of the service, whatever it means.
func TestProfile_classifiedSuccessIsReadable(t *testing.T) {
	t.Parallel()
	encoded := zipped(`{"error":{"code":"card-declined"}}`)
	cfg := under(vendor(), over(script(answer(200, encoded, "Content-Encoding: gzip"))))
	var events recorder
	cfg.Observer = &events
	c := newClient(t, cfg)
	for name, do := range map[string]func(*http.Request) (*http.Response, error){"Do": c.Do, "round trip": c.RoundTripper().RoundTrip} {
		req, err := http.NewRequest(http.MethodPost, stubURL, nil)
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k-1")
		resp, err := do(req)
		require.NoError(t, err, name)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err, name)
		require.Equal(t, encoded, string(body), name)
		require.NoError(t, resp.Body.Close())
	}
	require.Len(t, events.calls, 2)
	for _, e := range events.calls {
		require.Equal(t, retry.Rejected, e.Outcome)
		require.Equal(t, 200, e.Status)
	}
}

// A guard's mark is required before the profile is asked. The profiles of the library take a 2xx for what it is.
func TestProfile_classifiesOnlyTheServicesSuccess(t *testing.T) {
	t.Parallel()
	guarded := vendor()
	guarded.MarksAnswers = true
	failed := failure(t, newClient(t, under(guarded, over(script(answer(200, `{"error":{"code":"x"}}`))))), post(stubURL))
	require.ErrorIs(t, failed, retry.ErrUnmarked)
	require.Equal(t, retry.Unknown, failed.Outcome)
	for _, p := range []*retry.Profile{retry.Stripe(), retry.Adyen()} {
		rt := script(answer(200, `{"errorCode":"704"}`, "Stripe-Should-Retry: true", "Transient-Error: true"))
		_, err := newClient(t, under(p, over(rt))).Send(t.Context(), post(stubURL))
		require.NoError(t, err)
		require.Equal(t, 1, rt.count())
	}
}
