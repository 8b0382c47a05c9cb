package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller

	"github.com/fanonce/fanonce/saga"
)

// pause is how long a saga waits between its first two steps, if it waits. No engine gives a saga
// up for so short a sleep.
const pause = 50 * time.Millisecond

// sleepers run the three steps with a sleep after the first one.
var sleepers = []contender{
	{name: ourSteps.name, open: openSleep},
	{name: dbosSteps.name, open: openDBOSSleep},
}

func sleepConditions(e effort) string {
	return fmt.Sprintf("Each saga sleeps for %v after the first of its three steps. What it costs: %s How many a second: %s",
		pause, costConditions(e), rateConditions(e))
}

var sleepSaga = saga.MustDefine("sleep", 1, func(b *saga.Builder[int, int]) {
	first := saga.StepFunc(b, "callee.first", b.Input(), runStep).UndoFunc("callee.undo-first", undoStep)
	slept := saga.Sleep(b, "callee.sleep", saga.Const(b, pause)).After(first)
	second := saga.StepFunc(b, "callee.second", first.Output(), runStep).UndoFunc("callee.undo-second", undoStep).After(slept)
	third := saga.StepFunc(b, "callee.third", second.Output(), runStep)
	saga.Return(b, third.Output())
})

func openSleep(ctx context.Context, config *pgxpool.Config) (engine, error) {
	return openSagas(ctx, config, sleepSaga)
}

func openDBOSSleep(ctx context.Context, config *pgxpool.Config) (engine, error) {
	return openDBOS(ctx, config, dbosSleepWorkflow)
}

func dbosSleepWorkflow(ctx dbos.Context, n int) (int, error) {
	n, err := runDBOSSteps(ctx, n, "first")
	if err != nil {
		return 0, err
	}
	if _, err := dbos.Sleep(ctx, pause); err != nil {
		return 0, err
	}
	return runDBOSSteps(ctx, n, "second", "third")
}
