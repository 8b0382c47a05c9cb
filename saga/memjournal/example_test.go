package memjournal_test

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
)

func ExampleNew() {
	greet := saga.MustDefine("greet", 1, func(b *saga.Builder[string, string]) {
		done := saga.StepFunc(b, "local.greet", b.Input(), func(_ context.Context, call saga.Call[string]) (string, error) {
			return "hello, " + call.Input, nil
		}).ReadOnly()
		saga.Return(b, done.Output())
	})
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Definitions: []saga.AnyDefinition{greet}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)
	fmt.Println(greet.Run(ctx, engine, childkey.MustParse("k-1"), "world"))
	// Output: hello, world <nil>
}
