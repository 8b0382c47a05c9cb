package saga_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// An order has lines. The stock of each is held, and is released if the order comes to nothing.
type (
	Basket struct {
		Card  string
		Lines []Line
	}
	Line struct {
		SKU   string
		Count int
	}
	Held struct{ Cents int }
	Bill struct {
		Card  string
		Cents int
	}
)

var (
	HoldStock = contract.Post[Line, Held]("inventory", "hold", "/holds").UndoneBy(FreeStock)
	FreeStock = contract.Post[contract.Undo[Line, Held], struct{}]("inventory", "free", "/holds/free")
	TakeMoney = contract.Post[Bill, struct{}]("payment", "collect", "/bills")
)

func linesIn(basket Basket) []Line { return basket.Lines }

func lineName(l Line) string { return l.SKU }

func billOf(basket Basket, holds []Held) Bill {
	bill := Bill{Card: basket.Card}
	for _, held := range holds {
		bill.Cents += held.Cents
	}
	return bill
}

// Fulfil holds the stock of all lines side by side, and then takes the money for them.
var Fulfil = saga.MustDefine("fulfil", 1, func(b *saga.Builder[Basket, struct{}]) {
	lines := saga.Map(b.Input(), linesIn)
	holds := saga.Each(b, HoldStock, lines, lineName)
	saga.Step(b, TakeMoney, saga.Map2(b.Input(), holds.Output(), billOf)).Pivot()
})

func ExampleEach() {
	services := sagatest.NewServices()
	services.Answer("inventory.hold[tea]", `{"Cents": 400}`)
	services.Answer("inventory.hold[milk]", `{"Cents": 150}`)
	services.Script("inventory.hold[caviar]", sagatest.RejectWith(409, `{"detail": "sold out"}`))
	client, err := services.Client("inventory", "payment")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{Fulfil}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)

	_, err = Fulfil.Run(ctx, engine, childkey.MustParse("order-1"), Basket{"visa", []Line{{"tea", 2}, {"milk", 1}}})
	fmt.Println(err)
	for _, d := range services.Deliveries() {
		if d.Step == "payment.collect" {
			fmt.Println(string(d.Body))
		}
	}
	_, err = Fulfil.Run(ctx, engine, childkey.MustParse("order-2"), Basket{"visa", []Line{{"tea", 1}, {"caviar", 1}}})
	var failed *saga.Error
	fmt.Println(errors.As(err, &failed), failed.FailedStep, failed.Undone)
	// Output:
	// <nil>
	// {"Card":"visa","Cents":550}
	// true inventory.hold[caviar] [inventory.hold[tea]]
}
