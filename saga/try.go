package saga

import (
	"context"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// begin begins the calls of a decision. While the engine's beats are missing it
// begins none, and looks again soon.
func (d *drive) begin(decision *decision) error {
	switch {
	case len(decision.start) == 0:
		return nil
	case !d.life.valid():
		return ErrLeaseLost
	case d.life.late():
		now := d.now()
		decision.sooner(now.Add(d.life.lease/10), now)
		return nil
	}
	// Outputs are decoded as any other owner would decode them.
	known, err := d.progress.facts(d.record.Input)
	if err != nil {
		return err
	}
	for _, t := range decision.start {
		resumed := d.progress.leg(t).maybe
		var output []byte
		if t.undo {
			output = d.progress.forward[t.step.index].result
		}
		first := d.firstSent(t)
		tooOld := resumed && !t.undo && d.tooOld(t.step, first)
		d.progress.begin(t)
		d.engine.work.Go(func() {
			begun := time.Now()
			result, err := []byte(nil), tooOldError(t.step)
			if !tooOld {
				result, err = d.try(t, known, output, resumed, first)
			}
			d.endings <- ending{task: t, verdict: judge(result, err), err: err, elapsed: time.Since(begun)}
		})
	}
	return nil
}

// firstSent returns when the call can first have been sent, from what is in the
// journal: the same for every try, by any owner.
func (d *drive) firstSent(t task) time.Time {
	if t.undo {
		return d.progress.turned
	}
	return d.record.CreatedAt
}

// tooOld reports whether the callee may have forgotten the step's key.
func (d *drive) tooOld(s *step, first time.Time) bool {
	return s.retention > 0 && d.now().Sub(first) >= s.retention-s.retention/20
}

func tooOldError(s *step) error {
	return &retry.Error{
		Outcome: retry.Unknown, Evidence: "too old to be sent again; an earlier try may have taken effect",
		Service: s.address.service, Operation: s.address.operation, Err: retry.ErrKeyExpired,
	}
}

// try makes one try of t.
func (d *drive) try(t task, known *facts, output []byte, resumed bool, first time.Time) ([]byte, error) {
	ctx, cancel := context.WithTimeout(d.ctx, t.step.tryTimeout)
	defer cancel()
	ctx = wire.NewContext(ctx, wire.Inbound{FirstSent: first, Rerun: resumed, Allowance: -1})
	ctx = context.WithValue(ctx, infoKey{}, Info{
		ID: d.owner.ID, Scope: d.record.Scope, Name: d.plan.name, Version: d.plan.version, Step: t.step.name, Undo: t.undo,
	})
	c := &call{client: d.engine.client, key: d.record.Key, step: t.step, output: output}
	var result []byte
	err := guarded(func() error {
		c.input = t.step.input.eval(known)
		return nil
	})
	if err != nil { // nothing was sent, by this try
		err = fmt.Errorf("input of %s: %w", t.step.name, err)
		d.engine.tell(EngineEvent{Kind: EnginePanic, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		return nil, &retry.Error{Outcome: retry.NotSent, Evidence: "the input could not be made", Retryable: true, Err: err}
	}
	err = guarded(func() error {
		if t.undo {
			return t.step.undoCall(ctx, c)
		}
		var err error
		result, err = t.step.call(ctx, c)
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
