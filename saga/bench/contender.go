package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller

	"github.com/fanonce/fanonce/internal/benchkit"
)

// A contender is one engine that runs three steps, one after the other. The engine would finish
// them after a crash.
type contender struct {
	name string
	// open returns an engine on a database of its own, which is empty.
	open func(context.Context, *pgxpool.Config) (engine, error)
	// What is expected of it. The zero value expects nothing.
	costs costGoals
	rates map[int]*goal // of the rate by DBOS', by number of callers
}

// An engine runs sagas, which other libraries call workflows. Each step adds one to its input.
type engine interface {
	// run runs a new saga with that input, and returns its result.
	run(ctx context.Context, in int) (int, error)
	// close ends the engine and its connections.
	close(ctx context.Context) error
}

// steps is the number of steps in each saga.
const steps = 3

var (
	ourSteps = contender{
		name: "saga", open: openSteps,
		costs: costGoals{statements: benchkit.AtMost(5), transactions: benchkit.AtMost(4), wal: benchkit.AtMost(1536)},
		rates: map[int]*goal{1: benchkit.AtLeast(2), 32: benchkit.AtLeast(4)},
	}
	dbosSteps = contender{name: "DBOS", open: openDBOSSteps}
	workflows = contender{name: "go-workflows", open: openWorkflows}
)

// contenders are in the order of the report.
var contenders = []contender{ourSteps, dbosSteps, workflows}

// start opens the contender on a database of its own.
func (c contender) start(ctx context.Context, on *cluster) (*entrant, error) {
	config, err := on.database(ctx)
	if err != nil {
		return nil, err
	}
	database := config.ConnConfig.Database
	running, err := c.open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return &entrant{c, running, func(ctx context.Context) (cpuTime, error) { return on.cpu(ctx, database) }}, nil
}

// An entrant is a contender that runs.
type entrant struct {
	contender
	engine
	// used returns the processor time that it has used so far.
	used func(context.Context) (cpuTime, error)
}

// increment is the work of a step.
func increment(n int) int { return n + 1 }

// runOnce runs one saga and checks its result.
func runOnce(ctx context.Context, e engine, in int) error {
	out, err := e.run(ctx, in)
	if err == nil && out != in+steps {
		err = fmt.Errorf("%d steps made %d of %d", steps, out, in)
	}
	return err
}

// closeTimeout bounds the end of an engine.
const closeTimeout = 30 * time.Second

// end closes the engine, also if ctx is over.
func end(ctx context.Context, e engine) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return e.close(ctx)
}
