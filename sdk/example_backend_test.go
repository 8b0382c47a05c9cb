package sdk_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A backend has the shape of stripe-go's Backend, and makes its requests as that does. The
// body is a form. A call without a key of its own gets a random Idempotency-Key.
type backend struct {
	URL        string
	HTTPClient *http.Client // as in stripe.BackendConfig
}

type backendParams struct {
	Context        context.Context
	IdempotencyKey *string
	Form           url.Values
}

func (b *backend) Call(method, path, key string, params *backendParams, v any) error {
	req, err := http.NewRequestWithContext(params.Context, method, b.URL+path, strings.NewReader(params.Form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Add("Authorization", "Bearer "+key)
	req.Header.Add("Content-Type", "application/x-www-form-urlencoded")
	switch {
	case params.IdempotencyKey != nil:
		req.Header.Add("Idempotency-Key", *params.IdempotencyKey)
	case method == http.MethodPost:
		req.Header.Add("Idempotency-Key", rand.Text())
	}
	resp, err := b.HTTPClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("stripe: %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// stripe-go makes a random key for each call, so a process that starts over would pay
// again. With the transport below it the key is derived from the order: it is the same in
// each process. Set the backend's own MaxNetworkRetries to 0, since the transport repeats.
func ExampleClient_RoundTripper_stripe() {
	d := stripeLike()
	defer d.Close()
	d.Script("/v1/payment_intents", sdktest.DropResponse())

	pay := func() {
		client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stripe": {URL: d.URL(), Profile: retry.Stripe()}}})
		if err != nil {
			fmt.Println(err)
			return
		}
		stripe := &backend{URL: d.URL(), HTTPClient: &http.Client{Transport: client.RoundTripper("stripe")}}

		var intent struct{ ID string }
		params := &backendParams{Context: orderContext(), Form: url.Values{"amount": {"1999"}, "currency": {"eur"}}}
		err = stripe.Call(http.MethodPost, "/v1/payment_intents", "sk_test", params, &intent)
		fmt.Println(intent.ID, err)
	}
	pay()
	pay() // the process started over

	fmt.Println("deliveries:", len(d.Requests()), "key:", d.Requests()[2].Key)
	fmt.Println("payments:", d.Effects())
	// Output:
	// pi_1 <nil>
	// pi_1 <nil>
	// deliveries: 3 key: 76ab48a4c992374e96dc6cd58040ede2
	// payments: map[76ab48a4c992374e96dc6cd58040ede2:1]
}
