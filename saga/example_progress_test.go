package saga_test

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// The step is kept while its saga is defined, so that its output can be read later.
var charged *saga.StepRef[Order, Charge]

var Sale = saga.MustDefine("sale", 1, func(b *saga.Builder[Order, Charge]) {
	saga.Step(b, Reserve, b.Input())
	charged = saga.Step(b, Pay, b.Input())
	saga.Return(b, charged.Output())
})

// A customer asks how far an order is.
func ExampleDefinition_Progress() {
	services := sagatest.NewServices()
	services.Answer("payment.charge", `{"ID":"c-7"}`)
	client, err := services.Client("inventory", "payment")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{Sale}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)
	key := childkey.MustParse("order-1042")
	if _, err := Sale.Run(ctx, engine, key, Order{SKU: "a-1"}); err != nil {
		fmt.Println(err)
		return
	}

	record, err := engine.Lookup(ctx, journal.IDOf("", "sale", key))
	if err != nil {
		fmt.Println(err)
		return
	}
	steps, err := Sale.Progress(record) // an error: it is of another version
	for _, s := range steps {
		fmt.Println(s.Name, s.Status)
	}
	charge, done, err := charged.ReadOutput(record)
	fmt.Println(charge.ID, done, err)
	// Output:
	// inventory.reserve completed
	// payment.charge completed
	// c-7 true <nil>
}
