package clients

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/stripe/stripe-go/v84"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
)

// NewStripe returns a client of a service at url that speaks Stripe's dialect. Its refusals need the form of
// [StripeProblem].
func NewStripe(url string) *stripe.Client {
	return stripe.NewClient("sk_test_none", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL:               stripe.String(url),
		MaxNetworkRetries: stripe.Int64(10),
		HTTPClient:        &http.Client{Timeout: 10 * time.Second}, // of one attempt
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// StripeProblem renders a refusal for the clients of Stripe ([server.Config.RenderProblem]). stripe-node takes every
// JSON without an "error" member for a success. stripe-go retries an answer with such a member only if it is a 429
// with the code lock_timeout: it looks neither at a 409 nor at Stripe-Should-Retry then. So a refusal that a retry can
// help is a 429 here. The code in Idempotency-Code stays.
func StripeProblem(_ *http.Request, p wire.Problem) server.Response {
	type apiError struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	answer := apiError{Type: "api_error", Code: string(p.Code), Message: p.Detail}
	status := p.Status
	_, ofGuard := p.Code.Situation() // else it is a typed handler's error, which keeps its status
	switch {
	case p.Retryable && ofGuard:
		status, answer.Code = http.StatusTooManyRequests, "lock_timeout"
	case p.Code == wire.KeyReused:
		answer.Type = "idempotency_error"
	case p.Status < http.StatusInternalServerError:
		answer.Type = "invalid_request_error"
	}
	body, err := json.Marshal(map[string]apiError{"error": answer})
	if err != nil {
		return server.Response{} // answered with 500, and logged
	}
	return server.Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}
