package saga_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// Subscribe is a version of a subscription, which waits for a month.
func Subscribe(version int, declare func(b *saga.Builder[string, struct{}], bill saga.AnyStep)) *saga.Definition[string, struct{}] {
	note := func(context.Context, saga.Call[string]) (struct{}, error) { return struct{}{}, nil }
	return saga.MustDefine("subscribe", version, func(b *saga.Builder[string, struct{}]) {
		month := saga.Sleep(b, "month.ends", saga.Const(b, 30*24*time.Hour))
		bill := saga.StepFunc(b, "shop.bill", b.Input(), note).Pivot().After(month)
		declare(b, bill)
	})
}

var (
	Subscribe1 = Subscribe(1, func(*saga.Builder[string, struct{}], saga.AnyStep) {})
	Subscribe2 = Subscribe(2, func(b *saga.Builder[string, struct{}], bill saga.AnyStep) {
		saga.Sleep(b, "shop.rests", saga.Const(b, time.Hour)).After(bill)
	})
)

// A new version is to have the sagas that wait already. A deploy calls MigrateAll once its engine is open.
func ExampleOperator_MigrateAll() {
	ctx := context.Background()
	both := []saga.AnyDefinition{Subscribe1, Subscribe2}
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Definitions: both})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close(ctx) }()
	ann, err := Subscribe1.Start(ctx, engine, childkey.MustParse("ann"), "ann@example.com")
	if err != nil {
		fmt.Println(err)
		return
	}

	by := journal.Audit{Actor: "deploy", Reason: "version 2 rests after the bill"}
	counts, err := engine.MigrateAll(ctx, saga.MigrateRequest{To: Subscribe2, DryRun: true}, by)
	fmt.Println("would move", counts.Moved, counts.Refused, err)
	counts, err = engine.MigrateAll(ctx, saga.MigrateRequest{To: Subscribe2}, by)
	fmt.Println("moved", counts.Moved, err)

	record, err := engine.Lookup(ctx, ann.ID)
	fmt.Println("version", record.Version, err)
	_, moved, err := engine.Migrate(ctx, ann.ID, Subscribe1, by) // and back
	fmt.Println(moved, err)

	_, err = engine.Cancel(ctx, ann.ID, by)
	fmt.Println(err)
	_, _, err = engine.Migrate(ctx, ann.ID, Subscribe2, by)
	var refused *saga.MigrationError
	fmt.Println(errors.As(err, &refused), len(refused.Problems))
	// Output:
	// would move 1 0 <nil>
	// moved 1 <nil>
	// version 2 <nil>
	// true <nil>
	// <nil>
	// true 1
}
