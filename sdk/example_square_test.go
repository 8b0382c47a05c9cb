package sdk_test

import (
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
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

// The key travels in the body, in whose bytes nothing else changes.
func ExampleService_bodyField() {
	square := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"payment-1"}`)
	}), sdktest.KeyMember("idempotency_key"))
	defer square.Close()
	square.Script("/v2/payments", sdktest.DropResponse())

	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"square": {
		URL: square.URL(),
		Profile: &retry.Profile{
			BodyField:   "idempotency_key",
			MaxKeyBytes: 45, // New refuses an Encoding that is longer
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := sdk.Call(orderContext(), client, CreatePayment, SquarePayment{SourceID: "card-7", Cents: 1999})
	fmt.Println(receipt.ID, err)
	for _, request := range square.Requests() {
		fmt.Println(string(request.Body))
	}
	fmt.Println("payments:", square.Effects())
	// Output:
	// payment-1 <nil>
	// {"idempotency_key":"b4b756e30a892de725c28522240b8238","source_id":"card-7","cents":1999}
	// {"idempotency_key":"b4b756e30a892de725c28522240b8238","source_id":"card-7","cents":1999}
	// payments: map[b4b756e30a892de725c28522240b8238:1]
}
