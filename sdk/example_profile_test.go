package sdk_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A callee that is none of this library's: its way to take keys in a few lines.
// Here a bare UUID, in a header of its own, which it remembers for six hours.
func ExampleService_profile() {
	d := sdktest.Start(nil, sdktest.KeyHeader("PayPal-Request-Id"))
	defer d.Close()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {
		URL: d.URL(),
		Profile: &retry.Profile{
			KeyHeader: "PayPal-Request-Id", Bare: true,
			Encoding: childkey.UUIDv4, MaxKeyBytes: 38,
			Retention: 6 * time.Hour,
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := orderContext()
	_, err = sdk.Call(ctx, client, Charge, Payment{Cents: 1999})
	fmt.Println(err)

	// By the time that was stored with the order, the callee may have forgotten
	// the call: it is not sent again.
	yesterday := time.Now().Add(-24 * time.Hour)
	_, err = sdk.Call(ctx, client, Charge, Payment{Cents: 1999}, sdk.FirstSent(yesterday))
	fmt.Println("expired:", errors.Is(err, retry.ErrKeyExpired))

	for _, r := range d.Requests() {
		fmt.Println("sent under", r.Header.Get("PayPal-Request-Id"))
	}
	// Output:
	// <nil>
	// expired: true
	// sent under 3309a012-3d19-439a-9359-33e12dfe4579
}
