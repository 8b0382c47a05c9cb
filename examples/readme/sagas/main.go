// Sagas places an order as a saga.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
)

var checkout = saga.MustDefine("checkout", 1, func(b *saga.Builder[shopapi.Order, shopapi.Receipt]) {
	line := saga.Map(b.Input(), func(o shopapi.Order) shopapi.Line { return o.Line })
	payment := saga.Map(b.Input(), func(o shopapi.Order) shopapi.Payment { return o.Payment })
	saga.Step(b, shopapi.Reserve, line)
	charge := saga.Step(b, shopapi.Charge, payment)
	saga.Return(b, charge.Output())
})

func main() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"inventory": {URL: "http://localhost:8080"}, "payment": {URL: "http://localhost:8081"},
	}})
	check(err)
	journal, err := pgjournal.OpenURL(ctx, os.Getenv("DATABASE_URL"), pgjournal.Config{Migrate: true})
	check(err)
	defer journal.Close()
	engine, err := saga.Open(ctx, journal, saga.Config{Client: client, Definitions: []saga.AnyDefinition{checkout}})
	check(err)
	defer engine.Close(ctx)
	if len(os.Args) != 3 {
		log.Fatal("usage: sagas KEY CENTS")
	}
	key, err := childkey.Parse(os.Args[1])
	check(err)
	order := shopapi.Order{Line: shopapi.Line{SKU: "tea"}}
	order.Payment.Cents, err = strconv.Atoi(os.Args[2])
	check(err)
	fmt.Println(checkout.Run(ctx, engine, key, order))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
