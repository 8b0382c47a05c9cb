package sdk_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// Each run of a call has the token of its day. The key does not depend on it, so
// that the run after an expired token is still the same call.
func ExampleService_headerFunc() {
	d := services()
	defer d.Close()
	d.Script("/charges", sdktest.Status(http.StatusUnauthorized, `{"error":"token expired"}`))
	token := "old"
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {
		URL: d.URL(),
		HeaderFunc: func(_ context.Context, header http.Header) error {
			header.Set("Authorization", "Bearer "+token)
			return nil
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := orderContext()
	_, err = sdk.Call(ctx, client, Charge, Payment{Cents: 1999})
	fmt.Println("worth another run:", sdk.Resumable(err))
	token = "new"
	receipt, err := sdk.Call(ctx, client, Charge, Payment{Cents: 1999})
	fmt.Println(receipt.ID, err)

	requests := d.Requests()
	for _, r := range requests {
		fmt.Println(r.Header.Get("Authorization"), "same key:", r.Key == requests[0].Key)
	}
	// Output:
	// worth another run: true
	// receipt-1 <nil>
	// Bearer old same key: true
	// Bearer new same key: true
}
