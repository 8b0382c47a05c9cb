package main

import (
	"context"
	"log/slog"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller
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

// runDBOSSteps stores the result of each step.
func runDBOSSteps(ctx dbos.Context, n int, names ...string) (int, error) {
	for _, name := range names {
		in := n
		out, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) { return increment(in), nil }, dbos.WithStepName(name))
		if err != nil {
			return 0, err
		}
		n = out
	}
	return n, nil
}

func openDBOS(ctx context.Context, config *pgxpool.Config, workflow dbos.Workflow[int, int]) (engine, error) {
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

func (d *dbosEngine) run(_ context.Context, in int) (int, error) {
	handle, err := dbos.RunWorkflow(d.runtime, d.workflow, in, dbos.WithWorkflowID(uuid.NewString()))
	if err != nil {
		return 0, err
	}
	return handle.GetResult()
}

func (d *dbosEngine) close(context.Context) error { return dbos.Shutdown(d.runtime, closeTimeout) }
