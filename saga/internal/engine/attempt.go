package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// begin begins the calls of a decision. Where it may begin none now, it looks again soon.
func (x *execution) begin(d *decision) error {
	if len(d.start) == 0 {
		return nil
	}
	ready, err := x.canBegin(d)
	if err != nil {
		return err
	}
	if !ready {
		now := x.now()
		d.sooner(now.Add(x.lease.length/10), now)
		return nil
	}
	inputs := make([]*graph.Node, 0, len(d.start))
	for _, t := range d.start {
		inputs = append(inputs, t.step.Input)
		if t.step.When != nil {
			inputs = append(inputs, t.step.When)
		}
	}
	known, err := x.progress.facts(x.record.Input, inputs...)
	if err != nil {
		return err
	}
	for _, t := range d.start {
		before, mine, err := x.enter(t)
		if err != nil {
			return err
		}
		a := x.attempt(t, known, mine)
		now := x.now()
		due := now.Add(a.bound + returnsWithin)
		if !mine {
			due = due.Add(a.bound + returnsWithin) // to wait for the call before it
		}
		x.progress.begin(t, a.first, due)
		d.sooner(due, now)
		x.engine.work.Add(1)
		go func() {
			if mine {
				x.carryOut(a)
			} else {
				x.follow(a, before)
			}
		}()
	}
	return nil
}

// canBegin reports whether the calls of a decision may begin now: heartbeats arrive, the saga is
// the owner's, and the journal says that the pivot begins, if it does.
func (x *execution) canBegin(d *decision) (bool, error) {
	switch {
	case !x.lease.isValid():
		return false, journal.ErrLeaseLost
	case x.lease.isLate():
		return false, nil
	}
	switch err := x.stillOwned(); {
	case errors.Is(err, journal.ErrLeaseLost), err != nil && x.lease.ctx.Err() != nil:
		return false, err
	case err != nil:
		return false, nil
	}
	if err := x.checkReadable(); err != nil {
		return false, err
	}
	// The lease may have been late when the pivot's beginning was to be written.
	return !slices.ContainsFunc(d.start, x.needsOpening), nil
}

// attempt returns what the next attempt of t needs. mine is false if an earlier execution still makes one.
func (x *execution) attempt(t task, known *graph.Facts, mine bool) attempt {
	p, now := x.progress, x.now()
	l := p.leg(t)
	a := attempt{
		task: t, known: known, resumed: l.maybe, first: now, calls: p.calls(t), bound: x.bound(t), number: l.attempts + 1,
	}
	if l.maybe || !mine || !l.firstSent.IsZero() {
		a.first = p.sentSince(t)
	}
	a.unheard = l.unheard && !t.step.LeavesNothing()
	if t.undo {
		f := &p.forward[t.step.Index]
		a.output, a.forwardSent = f.result, p.sentSince(task{t.step, false})
		a.forwardRan = f.isCompleted() && f.last.Forced == ""
	}
	a.tooOld = a.resumed && !t.undo && t.step.Retention > 0 && now.Sub(a.first) >= t.step.Retention-t.step.Retention/20
	return a
}

// follow makes the attempt once the call before it has ended, of an earlier execution of
// the saga or one that was given up. If that completed there is nothing to do. If it does not end, neither does the
// attempt begin.
func (x *execution) follow(a attempt, before *runningCall) {
	begun := time.Now()
	timer := time.NewTimer(a.bound + returnsWithin)
	v, enters, err := x.waitFor(a.task, before, timer.C)
	timer.Stop()
	if enters {
		x.carryOut(a)
		return
	}
	defer x.engine.work.Done()
	end := &ending{task: a.task, firstSent: a.first, finding: v, elapsed: time.Since(begun)}
	switch {
	case errors.Is(err, errHung):
		x.giveUp(a.task)
		end.finding, end.err = finding{outcome: retry.Unknown, detail: errHung.Error()}, errHung
	case err != nil: // the execution ends too, once it hears of it
		end.dropped = true
	}
	x.send(end)
}

// send tells the execution how an attempt ended, unless the execution is over.
func (x *execution) send(e *ending) {
	select {
	case x.endings <- e:
	case <-x.over:
	}
}

// bound returns how long the next attempt of t may take.
func (x *execution) bound(t task) time.Duration {
	if t.undo || t.step.Timeout == 0 {
		return t.step.AttemptTimeout
	}
	if left := x.progress.limit(t.step).Sub(x.now()); left > 0 {
		return min(t.step.AttemptTimeout, left)
	}
	return t.step.AttemptTimeout // an owner that came late finds out what became of the step
}

// An attempt is a task that is about to be made.
type attempt struct {
	task

	known   *graph.Facts
	output  []byte // of the call to undo; nil: none
	resumed bool

	forwardSent time.Time // when the call to undo can have been sent first
	forwardRan  bool      // the callee said that the call to undo took effect

	unheard bool          // an earlier owner may have run it, and what that called is not known
	first   time.Time     // its First-Sent
	tooOld  bool          // to be sent again
	bound   time.Duration // of the attempt
	calls   *retry.Calls
	number  int // counts from 1
}

// carryOut makes the attempt, which was entered, and reports how it ended, also if it ends
// the goroutine.
func (x *execution) carryOut(a attempt) {
	begun, ctx := time.Now(), x.stepStarted(&a)
	c := &graph.Call{Client: x.engine.cfg.Client, Parent: x.parent, Step: a.step, Output: a.output, Ran: a.forwardRan, Calls: a.calls}
	var result []byte
	var err error
	returned := false
	defer func() {
		if !returned {
			err = &sdk.PanicError{Value: "runtime.Goexit"}
		}
		end := &ending{task: a.task, firstSent: a.first}
		end.finding, end.err = x.classify(a, c, result, err)
		end.finding.nothing = c.Nothing
		x.consult(a, end.err, &end.finding)
		end.dropped = x.isCutOff(end.err)
		end.elapsed = time.Since(begun)
		x.stepEnded(ctx, &a, end)
		if end.late = x.engine.running.leave(x.callID(a.task), &end.finding); !end.late {
			defer x.engine.work.Done()
		}
		x.send(end)
	}()
	if a.tooOld {
		err = tooOldError(a.step)
	} else {
		result, err = x.makeAttempt(ctx, a, c)
	}
	returned = true
}

// classify returns what the end of an attempt means, and its error. An error whose methods panic, as
// those of a nil pointer do, says nothing: in its place is the panic.
func (x *execution) classify(a attempt, c *graph.Call, result []byte, err error) (finding, error) {
	if err == nil {
		return classify(result, nil), nil
	}
	return x.classifyError(a, c, err)
}

func (x *execution) classifyError(a attempt, c *graph.Call, err error) (v finding, _ error) {
	panics := false
	unreadable := graph.Guarded(func() error {
		v = classify(nil, err)
		if c.Spoke {
			v = classifyFunction(err, c.Calls, x.engine.cfg.Child, a.unheard)
		}
		panics = !c.Spoke && errors.As(err, new(*sdk.PanicError)) // a fan-out's branch may have panicked in a function that returned
		return nil
	})
	if unreadable != nil {
		panics, err = true, fmt.Errorf("the error of the attempt cannot be read: %w", unreadable)
		v = classify(nil, err)
	}
	if panics {
		x.tellOf(a, err)
	}
	return v, err
}

// isCutOff reports whether the attempt failed since its own process ends: the lease is over, or the engine is
// being closed and the function needed it, as one that runs another saga does. Then the attempt says nothing.
func (x *execution) isCutOff(err error) bool {
	return err != nil && (x.lease.ctx.Err() != nil || x.isClosing() && errors.Is(err, ErrClosed))
}

// consult asks the step's policy whether no further attempt can help.
func (x *execution) consult(a attempt, err error, v *finding) {
	if err == nil || a.undo || v.outcome == retry.Completed {
		return
	}
	permanent, panicked := a.step.IsPermanent(err)
	if panicked != nil {
		x.tellOf(a, panicked)
	}
	if permanent {
		v.again = false
		v.deadEnd = v.outcome == retry.Unknown || v.outcome == retry.NotSent && a.resumed // by this attempt alone
		v.stop = v.deadEnd
	}
}

// tellOf tells of a panic in a function of the attempt's.
func (x *execution) tellOf(a attempt, err error) {
	of := "step "
	if a.undo {
		of = "undo of "
	}
	x.engine.tell(journal.Event{
		Kind: journal.EventPanic, Engine: x.owner.Engine, ID: x.owner.ID, Err: fmt.Errorf("%s%s: %w", of, a.step.Name, err),
	})
}

// tooOldError is the end of an attempt that was not made, because the callee may have forgotten the step's key.
func tooOldError(s *graph.Step) error {
	return &retry.Error{
		Outcome: retry.Unknown, Evidence: "too old to be sent again; an earlier try may have taken effect",
		Service: s.Address.Service, Operation: s.Address.Operation, Err: retry.ErrKeyExpired,
	}
}

// makeAttempt makes the attempt.
func (x *execution) makeAttempt(ctx context.Context, a attempt, c *graph.Call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.bound)
	defer cancel()
	ctx = wire.NewContext(ctx, wire.Inbound{FirstSent: a.first, ForwardSent: a.forwardSent, Rerun: a.resumed, Parent: x.owner.ID})
	ctx = context.WithValue(ctx, infoKey{}, journal.CallInfo{
		ID: x.owner.ID, Scope: x.record.Scope, Name: x.plan.Name, Version: x.plan.Version, Step: a.step.Name, Undo: a.undo,
	})
	var result []byte
	err := graph.Guarded(func() error {
		if a.step.When != nil && !a.undo && !a.resumed {
			a.step.When.Eval(a.known) // it held before, or panicked, and does so again
		}
		c.Input = a.step.Input.Eval(a.known)
		if missing, ok := c.Input.(*graph.NoItem); ok {
			return missing
		}
		return nil
	})
	if err != nil { // nothing was sent, by this attempt
		err = fmt.Errorf("input: %w", err)
		return nil, &retry.Error{Outcome: retry.NotSent, Evidence: "the input could not be made", Retryable: true, Err: err}
	}
	err = graph.Guarded(func() error {
		if a.undo {
			return a.step.UndoCall(ctx, c)
		}
		var err error
		result, err = a.step.Call(ctx, c)
		return err
	})
	return result, err
}

type infoKey struct{}

// CallInfoFrom returns what an engine's call is made for; false if ctx is of no such call.
func CallInfoFrom(ctx context.Context) (journal.CallInfo, bool) {
	i, ok := ctx.Value(infoKey{}).(journal.CallInfo)
	return i, ok
}
