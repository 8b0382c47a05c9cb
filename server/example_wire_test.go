package server_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// pay answers with the number of payments that were made.
func pay() http.HandlerFunc {
	payments := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		payments++
		fmt.Fprintf(w, `{"payment":%d}`, payments)
	}
}

// The callers of this service send the key in the body, as Square's do.
func ExampleRoute_key() {
	type request struct {
		Key    string `json:"idempotency_key"`
		Amount int    `json:"amount"`
	}
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	payments, err := guard.Route(server.Route{
		Effect: server.Keyed,
		Key: func(_ *http.Request, body []byte) (string, error) {
			var in request
			if err := json.Unmarshal(body, &in); err != nil {
				return "", &server.StatusError{Status: http.StatusBadRequest, Detail: "The body must be JSON."}
			}
			if in.Key == "" {
				return "", server.ErrNoKey
			}
			return in.Key, nil
		},
	}, pay())
	if err != nil {
		panic(err)
	}
	for _, body := range []string{`{"idempotency_key":"order-1","amount":5}`, `{"idempotency_key":"order-1","amount":5}`, `{"amount":5}`} {
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v2/payments", strings.NewReader(body)))
		fmt.Printf("%d replayed=%q code=%q\n", w.Code, w.Header().Get("Idempotent-Replayed"), w.Header().Get("Idempotency-Code"))
	}
	// Output:
	// 200 replayed="false" code=""
	// 200 replayed="true" code=""
	// 400 replayed="" code="key-missing"
}

// Old clients of this service send keys that a guard refuses, such as "order 42". Key hashes those, and no others.
func ExampleRoute_keysOfOldClients() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	payments, err := guard.Route(server.Route{
		Effect: server.Keyed,
		Key: func(r *http.Request, _ []byte) (string, error) {
			text := r.Header.Get(wire.HeaderKey)
			if text == "" {
				return "", server.ErrNoKey
			}
			if _, err := childkey.Parse(text); err == nil {
				return text, nil
			}
			return fmt.Sprintf("old-%x", sha256.Sum256([]byte(text))), nil
		},
	}, pay())
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"order 42", "order 42", `"order-43"`, "order-43"} {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":5}`))
		r.Header.Set(wire.HeaderKey, key)
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, w.Header().Get(wire.HeaderReplayed))
	}
	// Output:
	// 200 {"payment":1} false
	// 200 {"payment":1} true
	// 200 {"payment":2} false
	// 200 {"payment":2} true
}

// The callers of this service use another header. The Idempotency-Key header is then only compared: if a request has
// both, they must be the same.
func ExampleRoute_keyInAnotherHeader() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		panic(err)
	}
	payments, err := guard.Route(server.Route{
		Effect: server.Keyed,
		Key: func(r *http.Request, _ []byte) (string, error) {
			key := r.Header.Get("X-Request-Reference")
			if key == "" {
				return "", server.ErrNoKey
			}
			return key, nil
		},
	}, pay())
	if err != nil {
		panic(err)
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":5}`))
		r.Header.Set("X-Request-Reference", "order-1")
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 200 {"payment":1} false
	// 200 {"payment":1} true
}

// The clients of this service expect errors in the shape of Stripe's API. stripe-node treats any JSON without an
// "error" member as a success, and obeys Stripe-Should-Retry. stripe-go retries an answer with an "error" member only
// if it is a 429 with the code lock_timeout. The folder examples/integrations/clients tests such clients.
func ExampleConfig_renderProblem() {
	type apiError struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{
		RenderProblem: func(_ *http.Request, p wire.Problem) server.Response {
			kind, code, status := "api_error", string(p.Code), p.Status
			_, ofGuard := p.Code.Situation() // a typed handler's error must keep its status
			switch {
			case p.Retryable && ofGuard:
				code, status = "lock_timeout", http.StatusTooManyRequests
			case p.Code == wire.KeyReused:
				kind = "idempotency_error"
			case p.Status < http.StatusInternalServerError:
				kind = "invalid_request_error"
			}
			body, err := json.Marshal(map[string]apiError{"error": {Type: kind, Code: code, Message: p.Detail}})
			if err != nil {
				return server.Response{} // answered with 500, and logged
			}
			return server.Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
		},
	})
	if err != nil {
		panic(err)
	}
	payments, err := guard.Handler(server.Keyed, pay())
	if err != nil {
		panic(err)
	}
	for _, amount := range []string{"5", "6"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/charges", strings.NewReader("amount="+amount))
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		payments.ServeHTTP(stripeRetry{w}, r)
		fmt.Println(w.Code, w.Body)
		fmt.Printf("code=%q retry=%q\n", w.Header().Get("Idempotency-Code"), w.Header().Get("Stripe-Should-Retry"))
	}
	// Output:
	// 200 {"payment":1}
	// code="" retry=""
	// 422 {"error":{"type":"idempotency_error","code":"key-reused","message":"A key belongs to one request: the same method, path, query, media type and body. Send this request with a new key."}}
	// code="key-reused" retry="false"
}

// stripeRetry repeats the guard's advice about retries under another name.
type stripeRetry struct{ http.ResponseWriter }

func (w stripeRetry) WriteHeader(status int) {
	if advice := w.Header().Get("X-Should-Retry"); advice != "" {
		w.Header().Set("Stripe-Should-Retry", advice)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController, by which the guard sets deadlines.
func (w stripeRetry) Unwrap() http.ResponseWriter { return w.ResponseWriter }
