package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// stripeLike is an API as Stripe's: forms go in, and its own header says whether
// a failure is worth a retry.
func stripeLike() *sdktest.Downstream {
	return sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("currency") != "eur" {
			w.Header().Set("Stripe-Should-Retry", "false")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"id":"pi_1","amount":%s}`, r.PostFormValue("amount"))
	}))
}

// collect takes the money for an order, once, however often it is called.
func collect(ctx context.Context, client *sdk.Client, orderID, currency string, cents int) (*retry.Response, error) {
	parent, err := childkey.FromParts("checkout", orderID)
	if err != nil {
		return nil, err
	}
	form := url.Values{"amount": {strconv.Itoa(cents)}, "currency": {currency}}
	return client.Send(childkey.NewContext(ctx, parent), sdk.Request{
		Service: "stripe", Operation: "payment_intents/create", Path: "/v1/payment_intents",
		ContentType: "application/x-www-form-urlencoded",
		Body:        []byte(form.Encode()), // sorted, and so the same bytes after a restart
	})
}

// The first answer is lost, the second says that the first run is still going,
// the third is the replay: one payment, under one bare key.
func Example_stripe() {
	d := stripeLike()
	defer d.Close()
	d.Script("/v1/payment_intents",
		sdktest.DropResponse(),
		sdktest.Status(http.StatusConflict, `{"error":{"type":"idempotency_error"}}`))
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stripe": {
		URL: d.URL(), Profile: retry.Stripe(), Header: http.Header{"Authorization": {"Bearer sk_test"}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := collect(context.Background(), client, "order-42", "eur", 1999)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Body), "replayed:", resp.Replayed, "attempts:", resp.Attempts)
	fmt.Println("payments:", d.Effects())

	// A failure that says not to come back is not retried, though it is a 500.
	d.Script("/v1/payment_intents")
	_, err = collect(context.Background(), client, "order-43", "xxx", 1999)
	var failed *retry.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Status, failed.Outcome, "attempts:", failed.Attempts)
	}
	// Output:
	// {"id":"pi_1","amount":1999} replayed: true attempts: 3
	// payments: map[822fed8c2ead9a428510cf0ffcb7ae0d:1]
	// 500 Unknown attempts: 1
}
