package sdk_test

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A callee that is none of this library's: its way to take keys in a few lines.
// Here a bare UUID, in a header of its own, which it remembers for six hours.
func ExampleProfile() {
	d := sdktest.Start(nil)
	defer d.Close()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {
		URL: d.URL(),
		Profile: sdk.Profile{
			KeyHeader: "PayPal-Request-Id", Bare: true,
			Encoding: childkey.UUIDv4, MaxKeyBytes: 38,
			Retention: 6 * time.Hour, // a retry that comes later is not sent
			KeyOnly:   true,
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = sdk.Call(orderContext(), client, Charge, Payment{Cents: 1999})
	fmt.Println(d.Requests()[0].Header.Get("PayPal-Request-Id"), err)
	// Output: 3309a012-3d19-439a-9359-33e12dfe4579 <nil>
}
