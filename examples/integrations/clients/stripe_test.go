package clients

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v84"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A refusal that no retry can help keeps its status, and one that a retry can help is Stripe's lock timeout.
func TestStripeProblem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code   wire.Code
		status int
		body   string
	}{
		{wire.InProgress, 429, `"type":"api_error","code":"lock_timeout"`},
		{wire.StoreUnavailable, 429, `"type":"api_error","code":"lock_timeout"`},
		{wire.KeyReused, 422, `"type":"idempotency_error","code":"key-reused"`},
		{wire.KeyMissing, 400, `"type":"invalid_request_error","code":"key-missing"`},
		{wire.OutcomeUnknown, 423, `"type":"invalid_request_error","code":"outcome-unknown"`},
		{wire.TransactionFailed, 500, `"type":"api_error","code":"transaction-failed"`},
	} {
		s, ok := tt.code.Situation()
		require.True(t, ok)
		got := StripeProblem(nil, wire.Problem{Code: tt.code, Status: s.Status, Retryable: s.Retryable})
		require.Equal(t, tt.status, got.Status, tt.code)
		require.Contains(t, string(got.Body), tt.body)
	}
}

// A typed handler's error keeps its status, or the guard would answer with 500.
func TestStripeProblem_typedHandler(t *testing.T) {
	t.Parallel()
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{RenderProblem: StripeProblem})
	require.NoError(t, err)
	charge := contract.Post[struct{}, struct{}]("shop", "charge", "/charges")
	mux := http.NewServeMux()
	require.NoError(t, server.Handle(mux, guard, charge, server.Keyed, func(context.Context, struct{}) (struct{}, error) {
		return struct{}{}, &server.StatusError{Status: http.StatusServiceUnavailable, Code: "bank-closed"}
	}))
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", "k")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "bank-closed")
}

// stripe-go tells a refusal's status and type.
func TestNewStripe_refused(t *testing.T) {
	t.Parallel()
	_, store := newDatabase(t)
	addr, _ := startService(t, store, StripeProblem)
	client := NewStripe("http://" + addr)
	require.Empty(t, callStripe(t.Context(), client, "", "stripe-refused", 100).Err)
	params := &stripe.ChargeCreateParams{Amount: stripe.Int64(101)}
	params.SetIdempotencyKey("stripe-refused")
	_, err := client.V1Charges.Create(t.Context(), params)
	var refused *stripe.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []any{422, stripe.ErrorTypeIdempotency}, []any{refused.HTTPStatusCode, refused.Type})
}
