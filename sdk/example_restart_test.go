package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// checkOut is all the work of a process for an order. To start over it needs only the order,
// because the keys derive from the order. It keeps no journal.
func checkOut(ctx context.Context, url, orderID string) (string, error) {
	parent, err := childkey.FromParts("checkout", orderID)
	if err != nil {
		return "", err
	}
	ctx = childkey.NewContext(ctx, parent)
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"inventory": {URL: url}, "payment": {URL: url},
	}})
	if err != nil {
		return "", err
	}
	hold, err := sdk.Call(ctx, client, Reserve, Lines{SKUs: []string{"lamp"}})
	if err != nil {
		return "", err
	}
	receipt, err := sdk.Call(ctx, client, Charge, Payment{Cents: 1999})
	return hold.ID + " " + receipt.ID, err
}

// The caller's process dies when it was charged and had no answer yet. Another
// one runs the same code: it sends the same keys, and nothing happens twice.
func ExampleCall_restart() {
	process, kill := context.WithCancel(context.Background())
	defer kill()
	d := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/charges" {
			kill()
		}
		fmt.Fprintf(w, `{"ID":"id-of%s"}`, r.URL.Path)
	}))
	defer d.Close()
	d.Script("/charges", sdktest.DropResponse())

	_, err := checkOut(process, d.URL(), "order-42")
	fmt.Println("unknown:", errors.Is(err, retry.ErrUnknown))
	ids, err := checkOut(context.Background(), d.URL(), "order-42")
	fmt.Println(ids, err)

	for _, r := range d.Requests() {
		fmt.Println(r.Path, "under", r.Key, "effects:", d.Effects()[r.Key])
	}
	// Output:
	// unknown: true
	// id-of/reservations id-of/charges <nil>
	// /reservations under 2ef17f9ec9228e7bc0e7bc4040ae779e effects: 1
	// /charges under 70adfb94e3bab039d04a924126692233 effects: 1
	// /reservations under 2ef17f9ec9228e7bc0e7bc4040ae779e effects: 1
	// /charges under 70adfb94e3bab039d04a924126692233 effects: 1
}
