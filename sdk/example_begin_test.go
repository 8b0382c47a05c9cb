package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A nightly job is its own caller, so it makes its own key. It dies after its charge has been
// made, and before it gets the answer. The next night's process begins with the same key and
// finds the charge made. It also prints when the first process began.
func ExampleBegin() {
	type Invoice struct{ Cents int }
	type Receipt struct{ ID string }
	charge := contract.Post[Invoice, Receipt]("payment", "charge", "/charges")
	charges := 0
	payment := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		fmt.Fprintf(w, `{"ID":"receipt-%d"}`, charges)
	}))
	defer payment.Close()
	payment.Script("/charges", sdktest.DropResponse())

	// In production this is store.Intents() of package pgstore.
	intents := &sdktest.Intents{Now: func() time.Time { return time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC) }}
	job := func(attempts int) (Receipt, error) {
		client, err := sdk.New(sdk.Config{
			Services: map[string]sdk.Service{"payment": {URL: payment.URL()}},
			Retry:    retry.Config{MaxAttempts: attempts},
		})
		if err != nil {
			return Receipt{}, err
		}
		ctx, err := sdk.Begin(context.Background(), intents, "invoices", "invoice-7", "rev-1")
		if err != nil {
			return Receipt{}, err
		}
		return sdk.Call(ctx, client, charge, Invoice{Cents: 500})
	}

	_, err := job(1)
	fmt.Println("killed, the charge is unknown:", errors.Is(err, retry.ErrUnknown))
	receipt, err := job(4)
	fmt.Println(receipt.ID, err, "charges:", charges)
	sent := payment.Requests()
	fmt.Println("same key:", sent[0].Key == sent[1].Key, "first sent:", sent[1].Header.Get("Idempotency-First-Sent"))
	// Output:
	// killed, the charge is unknown: true
	// receipt-1 <nil> charges: 1
	// same key: true first sent: 2026-11-20T02:00:00Z
}
