// Package stripe gives an existing client its keys and retries.
package stripe

import (
	"net/http"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// NewHTTPClient is for stripe-go, with MaxNetworkRetries 0. Without the profile it is for your own services.
func NewHTTPClient() (*http.Client, error) {
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"stripe": {URL: "https://api.stripe.com", Profile: retry.Stripe()},
	}})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: client.RoundTripper("stripe")}, nil // each request's ctx has the parent key
}
