package main

import (
	"context"
	"log/slog"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller

	"github.com/fanonce/fanonce/childkey"
)

// dbosEngine is DBOS with one workflow.
type dbosEngine struct {
	runtime  dbos.Context
	workflow dbos.Workflow[int, int]
}

func openDBOSSteps(ctx context.Context, config *pgxpool.Config) (engine, error) {
	return openDBOS(ctx, config, dbosStepsWorkflow)
}

func dbosStepsWorkflow(ctx dbos.Context, n int) (int, error) {
	return runDBOSSteps(ctx, n, "first", "second", "third")
}

// runDBOSSteps runs steps that increment n.
func runDBOSSteps(ctx dbos.Context, n int, names ...string) (int, error) {
	for _, name := range names {
		in := n
		out, err := runDBOSStep(ctx, name, func() (int, error) { return increment(in), nil })
		if err != nil {
			return 0, err
		}
		n = out
	}
	return n, nil
}

// runDBOSStep stores the result of the step.
func runDBOSStep(ctx dbos.Context, name string, step func() (int, error)) (int, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (int, error) { return step() }, dbos.WithStepName(name))
}

func openDBOS(ctx context.Context, config *pgxpool.Config, workflow dbos.Workflow[int, int]) (*dbosEngine, error) {
	// Its lifetime is that of the engine, and not of ctx.
	runtime, err := dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		AppName: "bench", DatabaseURL: config.ConnString(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(runtime, workflow, dbos.WithWorkflowName("steps"))
	if err := dbos.Launch(runtime); err != nil {
		_ = dbos.Shutdown(runtime, closeTimeout) // the first error says more
		return nil, err
	}
	return &dbosEngine{runtime, workflow}, nil
}

func (d *dbosEngine) run(ctx context.Context, in int) (int, error) {
	key, err := childkey.New()
	if err != nil {
		return 0, err
	}
	return d.runAs(ctx, key, in)
}

func (d *dbosEngine) runAs(_ context.Context, key childkey.Key, in int) (int, error) {
	handle, err := dbos.RunWorkflow(d.runtime, d.workflow, in, dbos.WithWorkflowID(key.String()))
	if err != nil {
		return 0, err
	}
	return handle.GetResult()
}

func (d *dbosEngine) close(context.Context) error { return dbos.Shutdown(d.runtime, closeTimeout) }
