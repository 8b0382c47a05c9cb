package saga_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

type Signup struct {
	Card  string
	Trial time.Duration
}

// An account is opened, and paid when its trial is over. Whoever cancels before has it closed, and pays nothing.
var Trial = saga.MustDefine("trial", 1, func(b *saga.Builder[Signup, Charge]) {
	order := saga.Map(b.Input(), func(s Signup) Order { return Order{Card: s.Card} })
	account := saga.Step(b, Reserve, order)
	length := saga.Map(b.Input(), func(s Signup) time.Duration { return s.Trial })
	trial := saga.Sleep(b, "trial.ends", length).After(account)
	paid := saga.Step(b, Pay, order).After(trial)
	saga.Return(b, paid.Output())
})

// A saga that sleeps is held by no process: start it, and ask for its result when it is due.
func ExampleSleep() {
	ctx := context.Background()
	services := sagatest.NewServices()
	client, err := services.Client("inventory", "payment")
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Client: client, Definitions: []saga.AnyDefinition{Trial}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close(ctx) }()
	r, err := Trial.Start(ctx, engine, childkey.MustParse("ann"), Signup{Card: "visa", Trial: 30 * 24 * time.Hour})
	fmt.Println(r.Status, err)

	_, err = Trial.Run(ctx, engine, childkey.MustParse("bob"), Signup{Trial: -time.Hour})
	var failed *saga.Error
	fmt.Println(errors.As(err, &failed), failed.FailedStep, failed.Outcome)
	// Output:
	// running <nil>
	// true trial.ends Rejected
}
