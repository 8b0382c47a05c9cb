package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// The card is declined. The hold stands all the same, and what needs the charge
// is not begun. The error names each branch with its outcome, in the order of the
// plan; Results has them by name.
func ExampleFanoutError() {
	client, d := startServices()
	defer d.Close()
	d.Script("/charges", sdktest.Status(http.StatusPaymentRequired, `{"error":"card declined"}`))

	fan := client.Fanout(orderContext())
	sdk.Add(fan, Reserve, Lines{SKUs: []string{"lamp"}})
	receipt := sdk.Add(fan, Charge, Payment{Cents: 1999})
	sdk.AddFunc(fan, "ship", func(ctx context.Context) (struct{}, error) {
		r, err := receipt.Get(ctx)
		if err != nil {
			return struct{}{}, err
		}
		return sdk.Call(ctx, client, Book, Parcel{ReceiptID: r.ID})
	})
	err := fan.Wait()

	var failed *sdk.FanoutError
	if errors.As(err, &failed) {
		for _, branch := range failed.Results {
			fmt.Println(branch.Name, branch.Outcome)
		}
	}
	fmt.Println("hold:", fan.Results()["inventory.reserve"].Value) // to be released: see Undo
	fmt.Println("ship failed for another:", errors.Is(fan.Results()["ship"].Err, sdk.ErrDependency))
	fmt.Println("worth another run:", sdk.Resumable(err))
	fmt.Println("requests:", len(d.Requests()))
	// Output:
	// inventory.reserve Completed
	// payment.charge Rejected
	// ship NotSent
	// hold: {hold-1}
	// ship failed for another: true
	// worth another run: false
	// requests: 2
}
