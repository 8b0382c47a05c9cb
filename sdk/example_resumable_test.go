package sdk_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// Every answer of one call is lost, so that nobody knows whether it took effect. The same code
// is run again with the same keys. Here that happens in the same process, but any other would
// do. The callee of the finished call replays its answer.
func ExampleResumable_again() {
	client, d := startServices()
	defer d.Close()
	lost := sdktest.DropResponse()
	d.Script("/charges", lost, lost, lost, lost) // as many as the client makes attempts

	place := func(ctx context.Context) error {
		fan := client.Fanout(ctx)
		sdk.Add(fan, Reserve, Lines{SKUs: []string{"lamp"}})
		sdk.Add(fan, Charge, Payment{Cents: 1999})
		err := fan.Wait()
		for _, name := range []string{"inventory.reserve", "payment.charge"} {
			fmt.Println(name, fan.Results()[name].Outcome)
		}
		return err
	}
	ctx := orderContext()
	for sdk.Resumable(place(ctx)) {
	}
	for _, n := range d.Effects() {
		fmt.Println("effects:", n)
	}
	// Output:
	// inventory.reserve Completed
	// payment.charge Unknown
	// inventory.reserve Completed
	// payment.charge Completed
	// effects: 1
	// effects: 1
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
