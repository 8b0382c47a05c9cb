package main

import "github.com/fanonce/fanonce/saga"

// An order is the input of a saga.
type order struct {
	FP     string `json:"fp"`
	Saga   string `json:"saga"`             // its key
	Reject string `json:"reject,omitempty"` // the step that is to be refused; "": none
}

// checkoutSaga reserves beside charging, and sends the receipt when both are done. A
// step that is refused has the others undone.
var checkoutSaga = saga.MustDefine("checkout", 1, func(b *saga.Builder[order, struct{}]) {
	hold := saga.Step(b, reserve, saga.Map(b.Input(), inputOf("inventory.reserve")))
	pay := saga.Step(b, charge, saga.Map(b.Input(), inputOf("payment.charge")))
	saga.Step(b, receipt, saga.Map(b.Input(), inputOf("notification.receipt"))).After(hold, pay).Pivot()
})

// inputOf returns what the hop of that step is asked for.
func inputOf(step string) func(order) effectInput {
	return func(o order) effectInput {
		return effectInput{FP: o.FP, Saga: o.Saga, Kind: "do", Reject: o.Reject == step}
	}
}
