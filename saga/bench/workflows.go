package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	"github.com/cschleiden/go-workflows/backend/postgres"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller
)

// workflowsEngine is go-workflows with client and worker in this process.
type workflowsEngine struct {
	client  *client.Client
	backend backend.Backend
	worker  *worker.Worker
	stop    context.CancelFunc
}

// resultTimeout is longer than any run. The API requires a timeout, and no value means "no
// limit".
const resultTimeout = time.Minute

// executorCache holds a run of each caller: with the 128 of the default, 256
// callers would replay histories without end.
const executorCache = 1024

func openWorkflows(ctx context.Context, config *pgxpool.Config) (engine, error) {
	to := config.ConnConfig
	store := postgres.NewPostgresBackend(to.Host, int(to.Port), to.User, to.Password, to.Database,
		postgres.WithPostgresOptions(func(db *sql.DB) {
			db.SetMaxOpenConns(connections)
			db.SetMaxIdleConns(connections)
		}),
		postgres.WithBackendOptions(backend.WithLogger(slog.New(slog.DiscardHandler))))
	// Without it the worker would look for work five times a second, and start each step up to
	// 200 ms late.
	b := monoprocess.NewMonoprocessBackend(store)
	options := worker.DefaultOptions
	options.WorkflowExecutorCacheSize = executorCache
	w := worker.New(b, &options)
	// Its lifetime is that of the engine, and not of ctx.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	err := errors.Join(w.RegisterWorkflow(stepsWorkflow), w.RegisterActivity(stepActivity))
	if err == nil {
		err = w.Start(running)
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, b.Close())
	}
	return &workflowsEngine{client.New(b), b, w, stop}, nil
}

func stepsWorkflow(ctx workflow.Context, n int) (int, error) {
	for range steps {
		out, err := workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, stepActivity, n).Get(ctx)
		if err != nil {
			return 0, err
		}
		n = out
	}
	return n, nil
}

func stepActivity(_ context.Context, n int) (int, error) { return increment(n), nil }

func (w *workflowsEngine) run(ctx context.Context, in int) (int, error) {
	instance, err := w.client.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: uuid.NewString()}, stepsWorkflow, in)
	if err != nil {
		return 0, err
	}
	return client.GetWorkflowResult[int](ctx, w.client, instance, resultTimeout)
}

func (w *workflowsEngine) close(context.Context) error {
	w.stop()
	if err := w.worker.WaitForCompletion(); err != nil {
		return err
	}
	return w.backend.Close()
}
