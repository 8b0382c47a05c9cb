package engine

import (
	"context"
	"strings"

	"github.com/fanonce/fanonce/saga/journal"
)

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

// traced lets the tracer begin, once. Only the execution's goroutine uses its ctx by now.
func (d *execution) traced() {
	if t := d.engine.cfg.Tracer; t != nil && !d.traces {
		d.traces, d.ctx = true, t.RunStarted(d.ctx, journal.RunEvent{
			ID: d.owner.ID, Name: d.plan.Name, Fence: d.owner.Fence, Trace: d.record.Trace,
		})
	}
}

// untraced lets the tracer end.
func (d *execution) untraced() {
	if d.traces {
		d.engine.cfg.Tracer.RunEnded(d.ctx)
	}
}

// stepStarted returns the ctx of an attempt.
func (d *execution) stepStarted(a *attempt) context.Context {
	t := d.engine.cfg.Tracer
	if t == nil {
		return d.ctx
	}
	return t.StepStarted(d.ctx, d.stepEvent(a))
}

// stepEnded tells how the attempt ended.
func (d *execution) stepEnded(ctx context.Context, a *attempt, end *ending) {
	t := d.engine.cfg.Tracer
	if t == nil {
		return
	}
	e := d.stepEvent(a)
	e.Outcome, e.Status, e.Code, e.Elapsed, e.Err = end.finding.outcome, end.finding.status, end.finding.code, end.elapsed, end.err
	t.StepEnded(ctx, e)
}

func (d *execution) stepEvent(a *attempt) journal.Event {
	return journal.Event{
		Kind: journal.EventAttempt, ID: d.owner.ID, Name: d.plan.Name, Step: a.step.Name, Undo: a.undo, Attempt: a.number,
	}
}
