package sdk_test

import (
	"context"
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
	client, d := startServices()
	defer d.Close()
	lost := sdktest.DropRequest()
	d.Script("/reservations", lost, lost, lost, lost)

	ctx, lines := orderContext(), Lines{SKUs: []string{"lamp"}}
	_, err := sdk.Call(ctx, client, Reserve, lines)
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

// The card is declined, so the reservation is released. A guarded handler answers with the refusal; if its process dies
// before that, its next run finds the same one.
func ExampleFanout_Undo() {
	client, d := startServices()
	defer d.Close()
	d.Script("/charges", sdktest.Status(402, `{"code":"card-declined","detail":"No funds."}`))
	ctx := orderContext()
	fan := client.Fanout(ctx)
	sdk.Add(fan, Reserve.UndoneBy(Release), Lines{SKUs: []string{"lamp"}})
	sdk.Add(fan, Charge, Payment{Cents: 1999})
	if err := fan.Wait(); err != nil && !sdk.Resumable(err) {
		fmt.Println("undone:", fan.Undo(ctx))
		refused := sdk.RefusalOf(err)
		fmt.Println(refused.Status, refused.Detail)
	}
	requests := d.Requests()
	fmt.Println(requests[2].Path, string(requests[2].Body))
	// Output:
	// undone: <nil>
	// 402 No funds.
	// /reservations/release {"input":{"SKUs":["lamp"]},"output":{"ID":"hold-1"}}
}

// An order is cancelled: its undo declares the fan-out of the order under the key that the order had, and undoes it
// without starting it.
func ExampleFanout_Undo_earlier() {
	client, d := startServices()
	defer d.Close()
	fanOf := func(ctx context.Context, skus ...string) *sdk.Fanout {
		fan := client.Fanout(ctx)
		sdk.Add(fan, Reserve.UndoneBy(Release), Lines{SKUs: skus})
		return fan
	}
	fmt.Println("ordered:", fanOf(orderContext(), "lamp").Wait())

	ctx := orderContext() // in a handler: childkey.NewContext(ctx, key), with the key of server.ForwardKey
	fmt.Println("cancelled:", fanOf(ctx, "lamp").Undo(ctx))
	for _, r := range d.Requests() {
		fmt.Println(r.Path)
	}
	// Output:
	// ordered: <nil>
	// cancelled: <nil>
	// /reservations
	// /reservations/release
}
