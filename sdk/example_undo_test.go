package sdk_test

import (
	"fmt"
	"strconv"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// Release undoes what Reserve did; its input is what Reserve got and, if it is
// known, what it returned.
var Release = contract.Post[contract.Undo[Lines, Hold], struct{}]("inventory", "release", "/reservations/release")

// It is unknown whether the reservation arrived. Its undo names its key, so that the callee knows
// which call to undo. The callee refuses the reservation if it comes late.
func ExampleCallUndo() {
	d := services()
	defer d.Close()
	client, err := newExampleClient(d.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	lost := sdktest.DropRequest()
	d.Script("/reservations", lost, lost, lost, lost)

	ctx, lines := orderContext(), Lines{SKUs: []string{"lamp"}}
	_, err = sdk.Call(ctx, client, Reserve, lines)
	fmt.Println("resumable:", sdk.Resumable(err)) // but the customer went away
	err = sdk.CallUndo(ctx, client, Reserve.UndoneBy(Release), contract.Undo[Lines, Hold]{Input: lines})
	fmt.Println("undone:", err)

	requests := d.Requests()
	reservation, release := requests[0], requests[len(requests)-1]
	fmt.Println(release.Path, string(release.Body))
	fmt.Println("names it:", release.Header.Get("Idempotency-Cancels") == strconv.Quote(reservation.Key))
	fmt.Println("key of its own:", release.Key != reservation.Key)
	// Output:
	// resumable: true
	// undone: <nil>
	// /reservations/release {"input":{"SKUs":["lamp"]}}
	// names it: true
	// key of its own: true
}
