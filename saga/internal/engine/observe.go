package engine

import (
	"context"
	"strings"

	"github.com/fanonce/fanonce/saga/journal"
)

// tell reports what concerns the engine.
func (e *Engine) tell(what journal.Event) { e.report(e.ctx, what) }

// report reports an event, if somebody listens.
func (o *Operator) report(ctx context.Context, e journal.Event) {
	if o.observe != nil {
		o.observe(ctx, e)
	}
}

// A Tracer hears when executions and attempts begin and end. Package saga says more.
type Tracer interface {
	Trace(ctx context.Context) string
	RunStarted(ctx context.Context, e journal.RunEvent) context.Context
	RunEnded(ctx context.Context)
	StepStarted(ctx context.Context, e journal.Event) context.Context
	StepEnded(ctx context.Context, e journal.Event)
}

// Trace returns the trace context of ctx for a new saga; "" without a tracer. It returns "" for a text
// that a journal refuses: no saga fails because of its trace.
func (e *Engine) Trace(ctx context.Context) string {
	if e.cfg.Tracer == nil {
		return ""
	}
	trace := e.cfg.Tracer.Trace(ctx)
	if len(trace) > journal.MaxTraceBytes || strings.ContainsFunc(trace, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return trace
}

// beginTrace lets the tracer begin, once. Only the execution's goroutine uses its ctx by now.
func (x *execution) beginTrace() {
	if t := x.engine.cfg.Tracer; t != nil && !x.traces {
		x.traces, x.ctx = true, t.RunStarted(x.ctx, journal.RunEvent{
			ID: x.owner.ID, Name: x.plan.Name, Fence: x.owner.Fence, Trace: x.record.Trace,
		})
	}
}

// endTrace lets the tracer end.
func (x *execution) endTrace() {
	if x.traces {
		x.engine.cfg.Tracer.RunEnded(x.ctx)
	}
}

// stepStarted returns the ctx of an attempt.
func (x *execution) stepStarted(a *attempt) context.Context {
	t := x.engine.cfg.Tracer
	if t == nil {
		return x.ctx
	}
	return t.StepStarted(x.ctx, x.stepEvent(a))
}

// stepEnded tells how the attempt ended.
func (x *execution) stepEnded(ctx context.Context, a *attempt, end *ending) {
	t := x.engine.cfg.Tracer
	if t == nil {
		return
	}
	e := x.stepEvent(a)
	e.Outcome, e.Status, e.Code, e.Elapsed, e.Err = end.finding.outcome, end.finding.status, end.finding.code, end.elapsed, end.err
	t.StepEnded(ctx, e)
}

func (x *execution) stepEvent(a *attempt) journal.Event {
	return journal.Event{
		Kind: journal.EventAttempt, ID: x.owner.ID, Name: x.plan.Name, Step: a.step.Name, Each: a.step.Each, Undo: a.undo, Attempt: a.number,
	}
}
