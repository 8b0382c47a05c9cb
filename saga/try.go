package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// begin begins the calls of a decision. Where it may begin none now, it looks again soon.
func (d *drive) begin(decision *decision) error {
	if len(decision.start) == 0 {
		return nil
	}
	ready, err := d.ready(decision)
	if err != nil {
		return err
	}
	if !ready {
		now := d.now()
		decision.sooner(now.Add(d.life.lease/10), now)
		return nil
	}
	inputs := make([]*node, len(decision.start))
	for i, t := range decision.start {
		inputs[i] = t.step.input
	}
	known, err := d.progress.facts(d.record.Input, inputs...)
	if err != nil {
		return err
	}
	alone := d.alone(decision)
	for _, t := range decision.start {
		before, mine, err := d.enter(t)
		if err != nil {
			return err
		}
		a := d.attempt(t, known)
		d.progress.begin(t)
		if mine && alone {
			d.carryOut(a)
			continue
		}
		d.engine.work.Go(func() {
			growStack()
			if mine {
				d.carryOut(a)
			} else {
				d.follow(a, before)
			}
		})
	}
	return nil
}

// ready reports whether the calls of a decision may begin now: beats arrive, the saga is
// the owner's, and the journal says that the pivot begins, if it does.
func (d *drive) ready(decision *decision) (bool, error) {
	switch {
	case !d.life.valid():
		return false, ErrLeaseLost
	case d.life.late():
		return false, nil
	}
	switch err := d.stillOwned(); {
	case errors.Is(err, ErrLeaseLost), err != nil && d.life.ctx.Err() != nil:
		return false, err
	case err != nil:
		return false, nil
	}
	if err := d.legible(); err != nil {
		return false, err
	}
	// The lease may have been late when the pivot's beginning was to be written.
	return !slices.ContainsFunc(decision.start, d.unopened), nil
}

// attempt returns what the next try of t needs.
func (d *drive) attempt(t task, known *facts) attempt {
	a := attempt{
		task: t, known: known, resumed: d.progress.leg(t).maybe, first: d.firstSent(t), calls: d.progress.calls(t),
		bound: d.bound(t),
	}
	if t.undo {
		a.output = d.progress.forward[t.step.index].result
	}
	a.tooOld = a.resumed && !t.undo && d.tooOld(t.step, a.first)
	return a
}

// follow makes the attempt once the call before it has ended, of an earlier execution of
// the saga. If that completed there is nothing to do.
func (d *drive) follow(a attempt, before *runningCall) {
	begun := time.Now()
	v, enters, err := d.waitFor(a.task, before)
	switch {
	case err != nil: // the drive ends too
	case enters:
		d.carryOut(a)
	default:
		d.endings <- &ending{task: a.task, verdict: v, elapsed: time.Since(begun)}
	}
}

// alone reports whether the drive has nothing else to do or to wait for than the
// one call of the decision: that is made in the drive's own goroutine, which saves
// two changes of goroutine per step. A call ends by the end of its time, and with
// the drive's life.
func (d *drive) alone(decision *decision) bool {
	if len(decision.start) != 1 || d.progress.running > 0 {
		return false
	}
	return decision.wake.IsZero() || decision.wake.Sub(d.now()) > decision.start[0].step.tryTimeout
}

// bound returns how long the next try of t may take.
func (d *drive) bound(t task) time.Duration {
	if t.undo || t.step.timeout == 0 {
		return t.step.tryTimeout
	}
	if left := d.progress.limit(t.step).Sub(d.now()); left > 0 {
		return min(t.step.tryTimeout, left)
	}
	return t.step.tryTimeout // an owner that came late finds out what became of the step
}

// An attempt is one try of a task that is about to be made.
type attempt struct {
	task

	known   *facts
	output  []byte // of the call to undo; nil: none
	resumed bool
	first   time.Time     // when it can have been sent first
	tooOld  bool          // to be sent again
	bound   time.Duration // of the try
	calls   *retry.Calls
}

// carryOut makes the attempt, which was entered, and reports how it ended, also if it ends
// the goroutine.
func (d *drive) carryOut(a attempt) {
	begun := time.Now()
	c := &call{client: d.engine.client, parent: d.parent, step: a.step, output: a.output, calls: a.calls}
	var result []byte
	var err error = &PanicError{Value: "runtime.Goexit"} // unless it returns
	defer func() {
		var panicked *PanicError
		if errors.As(err, &panicked) {
			d.tellOf(a, err)
		}
		v := judge(result, err)
		if c.spoke {
			v = judgeFunction(err, c.calls)
		}
		v.nothing = c.nothing
		d.consult(a, err, &v)
		d.engine.running.leave(d.callID(a.task), v)
		d.endings <- &ending{task: a.task, verdict: v, err: err, elapsed: time.Since(begun)}
	}()
	if a.tooOld {
		err = tooOldError(a.step)
		return
	}
	result, err = d.try(a, c)
}

// consult asks the step's policy whether no further try can help.
func (d *drive) consult(a attempt, err error, v *verdict) {
	if err == nil || a.undo || v.outcome == retry.Completed {
		return
	}
	permanent, panicked := a.step.permanent(err)
	if panicked != nil {
		d.tellOf(a, panicked)
	}
	if permanent {
		v.again = false
		v.deadEnd = v.outcome == retry.Unknown
		v.stop = v.deadEnd
	}
}

// tellOf tells of a panic in a function of the attempt's.
func (d *drive) tellOf(a attempt, err error) {
	of := "step "
	if a.undo {
		of = "undo of "
	}
	d.engine.tell(EngineEvent{
		Kind: EnginePanic, Engine: d.owner.Engine, ID: d.owner.ID, Err: fmt.Errorf("%s%s: %w", of, a.step.name, err),
	})
}

// firstSent returns when the call can first have been sent, from what is in the
// journal: the same for every try, by any owner.
func (d *drive) firstSent(t task) time.Time {
	if t.undo {
		return d.progress.turned
	}
	return d.progress.claimed
}

// tooOld reports whether the callee may have forgotten the step's key. The key was sent
// after the steps before had ended. With CheckpointEdges the journal does not say when
// they had.
func (d *drive) tooOld(s *step, first time.Time) bool {
	if !d.plan.edges {
		first = d.progress.enabledAt(s, first)
	}
	return s.retention > 0 && d.now().Sub(first) >= s.retention-s.retention/20
}

func tooOldError(s *step) error {
	return &retry.Error{
		Outcome: retry.Unknown, Evidence: "too old to be sent again; an earlier try may have taken effect",
		Service: s.address.service, Operation: s.address.operation, Err: retry.ErrKeyExpired,
	}
}

// try makes the attempt.
func (d *drive) try(a attempt, c *call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(d.ctx, a.bound)
	defer cancel()
	ctx = wire.NewContext(ctx, wire.Inbound{FirstSent: a.first, Rerun: a.resumed, Allowance: -1})
	ctx = context.WithValue(ctx, infoKey{}, Info{
		ID: d.owner.ID, Scope: d.record.Scope, Name: d.plan.name, Version: d.plan.version, Step: a.step.name, Undo: a.undo,
	})
	var result []byte
	err := guarded(func() error {
		c.input = a.step.input.eval(a.known)
		return nil
	})
	if err != nil { // nothing was sent, by this try
		err = fmt.Errorf("input: %w", err)
		return nil, &retry.Error{Outcome: retry.NotSent, Evidence: "the input could not be made", Retryable: true, Err: err}
	}
	err = guarded(func() error {
		if a.undo {
			return a.step.undoCall(ctx, c)
		}
		var err error
		result, err = a.step.call(ctx, c)
		return err
	})
	return result, err
}

// An Info says which call of which saga a ctx is of.
type Info struct {
	ID      ID
	Scope   string // that the saga was started in
	Name    string // of the saga
	Version int
	Step    string
	Undo    bool
}

type infoKey struct{}

// FromContext returns what an engine's call is made for; false if ctx is of no
// such call. sdk.Service.Prepare takes the [Scope] from it, since an engine's
// call has nothing of the request that started the saga.
func FromContext(ctx context.Context) (Info, bool) {
	info, ok := ctx.Value(infoKey{}).(Info)
	return info, ok
}
