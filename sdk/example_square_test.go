package sdk_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/sdk"
)

// CreatePayment is an operation of an API that wants the key as a member of the
// body. The type that goes in does not have it.
var CreatePayment = contract.Post[SquarePayment, SquareReceipt]("square", "payments/create", "/v2/payments")

type (
	SquarePayment struct {
		SourceID string `json:"source_id"`
		Cents    int    `json:"cents"`
	}
	SquareReceipt struct {
		ID string `json:"id"`
	}
)

// squareLike pays once for each key, and loses the answer when it does.
type squareLike struct {
	mu       sync.Mutex
	bodies   []string
	payments map[string]int // by key
}

func (s *squareLike) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in struct {
		Key string `json:"idempotency_key"`
	}
	_ = json.Unmarshal(body, &in)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(body))
	if s.payments[in.Key] == 0 {
		s.payments[in.Key]++
		panic(http.ErrAbortHandler) // closes the connection
	}
	fmt.Fprint(w, `{"id":"payment-1"}`)
}

// The key travels in the body, in whose bytes nothing else changes.
func ExampleProfile_bodyField() {
	square := &squareLike{payments: make(map[string]int)}
	server := httptest.NewServer(square)
	defer server.Close()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"square": {
		URL: server.URL,
		Profile: sdk.Profile{
			BodyField:   "idempotency_key",
			MaxKeyBytes: 45, // New refuses an Encoding that is longer
			KeyOnly:     true,
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := sdk.Call(orderContext(), client, CreatePayment, SquarePayment{SourceID: "card-7", Cents: 1999})
	fmt.Println(receipt.ID, err)
	for _, body := range square.bodies {
		fmt.Println(body)
	}
	fmt.Println("payments:", square.payments)
	// Output:
	// payment-1 <nil>
	// {"idempotency_key":"b4b756e30a892de725c28522240b8238","source_id":"card-7","cents":1999}
	// {"idempotency_key":"b4b756e30a892de725c28522240b8238","source_id":"card-7","cents":1999}
	// payments: map[b4b756e30a892de725c28522240b8238:1]
}
