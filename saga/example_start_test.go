package saga_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// A Transfer moves cents from one account to another.
type Transfer struct {
	From, To string
	Cents    int
}

// Move takes the money and gives it. If the second step fails, the first one is undone. Its
// steps are plain functions; steps over operations of services need a Config.Client.
var Move = saga.MustDefine("move", 1, func(b *saga.Builder[Transfer, string]) {
	take := saga.StepFunc(b, "bank.take", b.Input(), func(_ context.Context, c saga.Call[Transfer]) (string, error) {
		fmt.Println("take", c.Input.Cents, "from", c.Input.From) // pass c.Key on: the step may run again
		return c.Input.From, nil
	}).UndoFunc("bank.give-back", func(_ context.Context, c saga.UndoCall[Transfer, string]) error {
		fmt.Println("give", c.Input.Cents, "back to", c.Input.From)
		return nil
	})
	give := saga.StepFunc(b, "bank.give", b.Input(), func(_ context.Context, c saga.Call[Transfer]) (string, error) {
		if c.Input.To == "closed" {
			return "", saga.Rejected(errors.New("the account is closed"))
		}
		fmt.Println("give", c.Input.Cents, "to", c.Input.To)
		return c.Input.To, nil
	}).After(take).Pivot()
	saga.Return(b, give.Output())
})

// An engine runs two sagas: one completes, and one is undone. In production the journal is
// pgjournal's, and a process keeps its engine open.
func Example() {
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Definitions: []saga.AnyDefinition{Move}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)
	to, err := Move.Run(ctx, engine, childkey.MustParse("order-1"), Transfer{From: "ann", To: "bob", Cents: 500})
	fmt.Println(to, err)
	_, err = Move.Run(ctx, engine, childkey.MustParse("order-2"), Transfer{From: "ann", To: "closed", Cents: 700})
	fmt.Println(errors.Is(err, saga.ErrCompensated))
	// Output:
	// take 500 from ann
	// give 500 to bob
	// bob <nil>
	// take 700 from ann
	// give 700 back to ann
	// true
}
