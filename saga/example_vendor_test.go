package saga_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// The vendor's operations. It pays back by the ID of a payment, and knows nothing of the keys of undos.
var (
	Collect = contract.Post[Order, Charge]("vendor", "collect", "/payments")
	PayBack = contract.Post[Charge, struct{}]("vendor", "pay-back", "/refunds")
)

// A vendor has the functions of the steps that call it. The error of a call has the vendor's code and message.
type vendor struct{ client *sdk.Client }

func (v vendor) collect(ctx context.Context, call saga.Call[Order]) (Charge, error) {
	return sdk.Call(ctx, v.client, Collect, call.Input)
}

func (v vendor) payBack(ctx context.Context, undo saga.UndoCall[Order, Charge]) error {
	paid := undo.Output
	if paid == nil { // it may have happened: the same call again says which payment it was
		again, err := sdk.Call(childkey.NewContext(ctx, undo.Forward), v.client, Collect, undo.Input)
		if errors.Is(err, retry.ErrRejected) {
			return saga.ErrNothingToUndo
		}
		if err != nil {
			return err // is tried again
		}
		paid = &again
	}
	_, err := sdk.Call(ctx, v.client, PayBack, *paid)
	return err
}

// The answer to the payment is lost, and the saga is given up. The vendor repeats the answer to the undo, under the same
// key, and takes no second payment.
func ExampleStepRef_UndoFunc() {
	d := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ID":"pi_1"}`) }))
	defer d.Close()
	d.Script("/payments", sdktest.DropResponse())
	client, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"vendor": {URL: d.URL(), Profile: &retry.Profile{}}},
		Retry:    retry.Config{MaxAttempts: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	v := vendor{client}
	sale := saga.MustDefine("sale", 1, func(b *saga.Builder[Order, Charge]) {
		paid := saga.StepFunc(b, "vendor.collect", b.Input(), v.collect).UndoFunc("vendor.pay-back", v.payBack).
			Retry(saga.RetryPolicy{Attempts: 1})
		saga.Return(b, paid.Output())
	})
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{sale}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)
	_, err = sale.Run(ctx, engine, childkey.MustParse("order-1045"), Order{SKU: "tea"})
	fmt.Println(errors.Is(err, saga.ErrCompensated))
	requests := d.Requests()
	first, again, refund := requests[0], requests[1], requests[2]
	fmt.Println("same key:", first.Key == again.Key, "payments:", d.Effects()[first.Key])
	fmt.Println(refund.Path, string(refund.Body))
	// Output:
	// true
	// same key: true payments: 1
	// /refunds {"ID":"pi_1"}
}
