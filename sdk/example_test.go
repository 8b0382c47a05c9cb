package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

type (
	Lines   struct{ SKUs []string }
	Hold    struct{ ID string }
	Payment struct{ Cents int }
	Receipt struct{ ID string }
	Parcel  struct{ HoldID, ReceiptID string }
)

// Caller and callees share one package for each service.
var (
	Reserve = contract.Post[Lines, Hold]("inventory", "reserve", "/reservations")
	Charge  = contract.Post[Payment, Receipt]("payment", "charge", "/charges")
	Book    = contract.Post[Parcel, struct{}]("shipping", "book", "/bookings")
)

// services are the three callees, on loopback.
func services() *sdktest.Downstream {
	return sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := map[string]string{"/reservations": "hold-1", "/charges": "receipt-1"}[r.URL.Path]
		_ = json.NewEncoder(w).Encode(map[string]string{"ID": id})
	}))
}

// startServices starts the three services, and returns a client of them.
func startServices() (*sdk.Client, *sdktest.Downstream) {
	d := services()
	client, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"inventory": {URL: d.URL()}, "payment": {URL: d.URL()}, "shipping": {URL: d.URL()}},
		Retry:    retry.Config{MaxAttempts: 4}, // fewer than the default: the examples end sooner
	})
	if err != nil {
		panic(err)
	}
	return client, d
}

// orderContext is the ctx of the request for order 42. Inside a guarded handler
// ctx has its parent key already.
func orderContext() context.Context {
	key, err := childkey.FromParts("checkout", "order-42", "rev-1")
	if err != nil {
		panic(err)
	}
	return childkey.NewContext(context.Background(), key)
}

// The service charges, and its answer is lost. The client sends the same call
// under the same key, and gets the answer of the one charge that there was.
func ExampleCall() {
	client, d := startServices()
	defer d.Close()
	d.Script("/charges", sdktest.DropResponse())

	receipt, err := sdk.Call(orderContext(), client, Charge, Payment{Cents: 1999})
	fmt.Println(receipt.ID, err)
	fmt.Println("deliveries:", len(d.Requests()), "keys:", len(d.Effects()))
	for _, n := range d.Effects() {
		fmt.Println("charges:", n)
	}
	// Output:
	// receipt-1 <nil>
	// deliveries: 2 keys: 1
	// charges: 1
}
