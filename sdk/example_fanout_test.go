package sdk_test

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/sdk"
)

// Two calls side by side, and a third that needs what both return.
func ExampleClient_Fanout() {
	client, d := startServices()
	defer d.Close()
	fan := client.Fanout(orderContext())
	hold := sdk.Add(fan, Reserve, Lines{SKUs: []string{"lamp"}})
	receipt := sdk.Add(fan, Charge, Payment{Cents: 1999})
	sdk.AddFunc(fan, "ship", func(ctx context.Context) (struct{}, error) {
		h, err := hold.Get(ctx) // waits for it
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
