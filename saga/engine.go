package saga

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// An Engine executes sagas: those that its own process starts, and those whose
// engine is gone. A process needs one. It is safe for concurrent use; make it
// with [Open] and end it with [Engine.Close].
type Engine struct {
	operator
	core *engine.Engine
}

// Close ends the engine. It begins no further call, waits for the calls that run, and
// stores how they ended. Other engines then claim its sagas. Runs that wait return
// [ErrDetached]. A second Close returns [ErrClosed].
//
// Once ctx ends, Close waits no longer, cuts the running calls off, and returns an error. The
// next owners of their sagas find out what these calls did. Close does not wait for functions that were given up
// ([EventHung]). A write that is running then ends
// when the journal answers, or is closed. Close the journal after the engine.
func (e *Engine) Close(ctx context.Context) error { return e.core.Close(ctx) }

// RunSweeper deletes sagas that are final for longer than [Config].Keep, until ctx ends or
// [Engine.Close] is called, which waits for it. Call it in a goroutine of its own.
//
// It begins a round about every [Config].SweepInterval, and deletes in batches of
// [Config].SweepBatch until nothing is left. Between two batches it rests four times as long as
// the last one took, at most a second: so the engine's own writes hardly feel it.
// Each batch that deleted sagas is an [EventSwept].
//
// A failure is an [EventSweepError]. RunSweeper tries again, ever more rarely, but about once a
// round at the least. One sweeper for a journal is enough; several share the work. It returns at
// once if the engine is closed.
func (e *Engine) RunSweeper(ctx context.Context) { e.core.RunSweeper(ctx) }

// Open returns an engine that keeps sagas in a journal. It stores the plans of cfg.Definitions and begins the
// engine's lease. Then the engine takes over unowned sagas in the background until
// [Engine.Close].
//
// Open blocks until the journal has done both, or ctx ends. Both operations are
// safe to repeat, and Open repeats them after errors: a service that starts while
// its database is down comes up with the database. Each error that Open repeats
// after is an [EventJournalError]. Give ctx a deadline if the service is not to wait.
//
// Open returns an [ErrConfig] or a [*PlanError] at once. It also returns
// the journal's [journal.ErrRefused] and [journal.ErrCorrupt] at once: to repeat does not change them.
// Once ctx has ended, the error wraps both the error of ctx and the journal's last one.
//
// Calls carry no deadline of ctx and no values of it; what they need
// to know of a saga is in [FromContext].
func Open(ctx context.Context, j journal.Journal, cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	switch {
	case err != nil:
		return nil, err
	case isNil(j):
		return nil, field("journal", errors.New("nil"))
	}
	plans, err := cfg.plans()
	if err != nil {
		return nil, err
	}
	c, err := engine.Open(ctx, j, engine.Config{
		Plans: plans, Client: cfg.Client, Lease: cfg.Lease, Poll: cfg.Poll, Keep: cfg.Keep, SweepInterval: cfg.SweepInterval,
		MaxActive: cfg.MaxActive, MaxRecoveryAttempts: cfg.MaxRecoveryAttempts, SweepBatch: cfg.SweepBatch, Backoff: cfg.Backoff,
		OnStuck: cfg.OnStuck, Observe: observing(cfg), Tracer: tracing(cfg), Rand: cfg.Rand, Child: childOf,
	})
	var changed *graph.PlanChanged
	switch {
	case errors.As(err, &changed):
		return nil, planError(changed.Plan, changed.Problem)
	case err != nil:
		return nil, err
	}
	return &Engine{operator: operator{&c.Operator}, core: c}, nil
}

// plans returns the plans of the definitions, checked against the rest of cfg.
func (cfg *Config) plans() ([]*graph.Plan, error) {
	plans, err := plansOf(cfg.Definitions)
	if err != nil {
		return nil, err
	}
	for _, p := range plans {
		if err := checkOperations(p, cfg.Client); err != nil {
			return nil, err
		}
		if problems := p.RetentionProblems(cfg.Backoff); len(problems) > 0 {
			return nil, field("Backoff", planError(p, problems...))
		}
	}
	return plans, nil
}

// planError returns the problems of a plan as an error.
func planError(p *graph.Plan, problems ...error) error {
	return &PlanError{Name: p.Name, Version: p.Version, Problems: problems}
}

// anyKey stands in for a saga's where only the names of a call are checked.
var anyKey = childkey.MustParse("any")

// checkOperations checks that there is a client with the services of the plan's operations.
func checkOperations(p *graph.Plan, client *sdk.Client) error {
	for _, s := range p.Steps {
		for _, a := range []*graph.Address{&s.Address, s.Undo} {
			if a == nil || a.Shape == graph.Function || a.MakesNoCall() {
				continue
			}
			if client == nil {
				return field("Client", fmt.Errorf("nil, and %s version %d has the operation %s", p.Name, p.Version, a.Name()))
			}
			if _, err := client.ChildKey(anyKey, a.Service, a.Operation); err != nil {
				return field("Definitions", fmt.Errorf("%s version %d: step %s: %w", p.Name, p.Version, s.Name, err))
			}
		}
	}
	return nil
}
