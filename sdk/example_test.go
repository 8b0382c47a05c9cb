package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

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

// What caller and callees share: one package for each service.
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

func newExampleClient(d *sdktest.Downstream) (*sdk.Client, error) {
	return sdk.New(sdk.Config{
		Retry: quick, // for the example's sake; the default waits longer between attempts
		Services: map[string]sdk.Service{
			"inventory": {URL: d.URL()}, "payment": {URL: d.URL()}, "shipping": {URL: d.URL()},
		},
	})
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

func ExampleCall() {
	d := services()
	defer d.Close()
	client, err := newExampleClient(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	d.Script("/charges", sdktest.DropResponse()) // charged, but the caller does not hear of it

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

func ExampleClient_Fanout() {
	d := services()
	defer d.Close()
	client, err := newExampleClient(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	fan := client.Fanout(orderContext())
	hold := sdk.Go(fan, Reserve, Lines{SKUs: []string{"lamp"}})
	receipt := sdk.Go(fan, Charge, Payment{Cents: 1999})
	sdk.GoFunc(fan, "ship", func(ctx context.Context) (struct{}, error) { // needs both
		h, err := hold.Get(ctx)
		if err != nil {
			return struct{}{}, err
		}
		r, err := receipt.Get(ctx)
		if err != nil {
			return struct{}{}, err
		}
		return sdk.Call(ctx, client, Book, Parcel{HoldID: h.ID, ReceiptID: r.ID})
	})
	if err := fan.Wait(); err != nil {
		fmt.Println(err)
		return
	}
	requests := d.Requests()
	fmt.Println(requests[2].Path, string(requests[2].Body))
	// Output: /bookings {"HoldID":"hold-1","ReceiptID":"receipt-1"}
}

func ExampleFanout_Resume() {
	d := services()
	defer d.Close()
	client, err := newExampleClient(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	lost := sdktest.DropResponse()
	d.Script("/charges", lost, lost, lost, lost) // as many as there are attempts

	ctx := orderContext()
	fan := client.Fanout(ctx)
	sdk.Go(fan, Reserve, Lines{SKUs: []string{"lamp"}})
	sdk.Go(fan, Charge, Payment{Cents: 1999})
	err = fan.Wait()
	for _, name := range []string{"inventory.reserve", "payment.charge"} {
		fmt.Println(name, fan.Results()[name].Outcome)
	}
	if sdk.Resumable(err) { // or run all of this again, in this process or another
		err = fan.Resume(ctx)
	}
	fmt.Println("resumed:", err)
	for _, n := range d.Effects() {
		fmt.Println("effects:", n)
	}
	// Output:
	// inventory.reserve Completed
	// payment.charge Unknown
	// resumed: <nil>
	// effects: 1
	// effects: 1
}

func ExampleEach() {
	d := services()
	defer d.Close()
	client, err := newExampleClient(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	skus := []string{"lamp", "desk"}
	fan := client.Fanout(orderContext())
	holds := sdk.Each(fan, Reserve, skus,
		func(sku string) string { return sku },
		func(sku string) Lines { return Lines{SKUs: []string{sku}} })
	fmt.Println(fan.Wait())
	for _, hold := range holds {
		fmt.Println(hold.Name())
	}
	// Output:
	// <nil>
	// inventory.reserve[lamp]
	// inventory.reserve[desk]
}

// A callee that is none of this library's: its way to take keys in a few lines.
func ExampleProfile() {
	d := services()
	defer d.Close()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"payment": {
		URL: d.URL(),
		Profile: sdk.Profile{
			KeyHeader: "X-Request-Id", Bare: true, Encoding: childkey.UUIDv4,
			MaxKeyBytes: 36, Retention: 6 * time.Hour, KeyOnly: true,
		},
		Prepare: func(_ context.Context, header http.Header) error {
			header.Set("Authorization", "Bearer "+strings.Repeat("x", 3))
			return nil
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = sdk.Call(orderContext(), client, Charge, Payment{Cents: 1})
	fmt.Println(err, len(d.Requests()[0].Header.Get("X-Request-Id")))
	// Output: <nil> 36
}

// How a handler answers for a failed fan-out: what can still end well is not
// stored (503), the rest is final.
func ExampleResumable() {
	answer := func(err error) int {
		switch {
		case err == nil:
			return http.StatusOK
		case sdk.Resumable(err):
			return http.StatusServiceUnavailable
		default:
			return http.StatusUnprocessableEntity
		}
	}
	fmt.Println(answer(nil))
	fmt.Println(answer(&retry.Error{Outcome: retry.Unknown, Err: context.DeadlineExceeded}))
	fmt.Println(answer(&retry.Error{Outcome: retry.Rejected, Status: http.StatusPaymentRequired, Err: retry.ErrRejected}))
	// Output:
	// 200
	// 503
	// 422
}
