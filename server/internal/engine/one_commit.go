package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A oneCommit is the first run of a call whose claim is committed together with its work. The handler runs before the
// claim, and sends nothing: it only plans its writes. So it may run although there is a record, and its result is
// dropped then.
//
// Only an absent key is claimed like that. Every other record leads to an ordinary run, or to an answer. So does an
// undo, whose barrier must look at the forward key before it decides on its writes.
type oneCommit struct {
	attempt *Attempt  // nil until the handler has run
	began   time.Time // by this process's clock, just before the handler ran
	result  Result
	end     store.Settlement
	close   func()
}

// firstRun returns nil for a call that claims its key before its work.
func (e *Engine) firstRun(c *Call) *oneCommit {
	if !c.OneCommit || !c.Forward.IsZero() {
		return nil
	}
	return &oneCommit{close: func() {}}
}

// claim runs the handler, once, and commits the claim, the writes and the answer. It returns the record that is in the
// way, or the outcome.
func (o *oneCommit) claim(ctx context.Context, e *Engine, c *Call, m *member) (finding, error) {
	if o.attempt == nil {
		if e.drain.isClosed() {
			out := e.closingRefusal()
			return finding{outcome: &out}, nil
		}
		m.planning(c)
		o.began = time.Now()
		o.work(ctx, e, c, m)
	}
	defer m.committed()
	r := o.attempt.run
	if claimed := m.planned(c); claimed != nil {
		r.plan.Discard() // the handler plans again, behind the claim
		return *claimed, nil
	}
	r.asked = time.Now()
	rec, first, err := r.commitPlan(o.end)
	var refused *store.TxError
	switch {
	case errors.As(err, &refused):
		return r.ended(r.refusedCommit(refused)), nil
	case errors.Is(err, store.ErrConflict):
		r.release(false)
		return r.ended(r.tired(o.result)), nil
	case err != nil:
		r.observeFailure(StoreRefusal(err))
		return finding{record: rec}, err
	case !first: // the claim of a follower, whose answer was lost, makes the call the owner
		return finding{record: rec, mine: c.owns(&rec), asked: o.began}, nil
	}
	took := time.Since(r.asked)
	e.observe(ctx, Event{Kind: EventClaimed, Route: c.Route.Name, ID: c.ID, Parent: c.Inbound.Parent, Duration: took})
	r.record = rec
	if o.end.State != store.StateCompleted {
		return r.ended(o.attempt.served(o.result, true)), nil
	}
	return r.ended(r.completed(o.end, nil)), nil
}

// ended is the finding of a call that has run.
func (r *run) ended(out Outcome) finding {
	r.observeFailure(out)
	return finding{outcome: &out}
}

// work runs the handler, and decides how its run ends.
func (o *oneCommit) work(ctx context.Context, e *Engine, c *Call, m *member) {
	r := &run{engine: e, call: c, member: m, plan: e.oneCommitStore.Plan(), owner: store.Owner{ID: c.ID, Token: c.Token, Fence: 1}}
	o.close = r.open(ctx)
	a := &Attempt{run: r}
	o.result = a.work(r.plan.NewContext(r.ctx), func() {
		r.panicked()
		r.release(false)
	})
	o.attempt = a
	if a.disposition(o.result) != Store {
		o.end = store.Settlement{State: store.StateReleased}
	} else {
		o.end = r.completion(a, o.result)
	}
	if o.end.State == store.StateReleased || a.how.Rollback {
		r.plan.Discard()
	}
}

// commitPlan sends the plan. It sends the plan again after a conflict, and once if the connection or the answer was
// lost: the token finds the run's own record.
func (r *run) commitPlan(end store.Settlement) (rec store.Record, first bool, err error) {
	e := r.engine
	for conflicts, losses := 0, 0; ; {
		ctx, cancel := r.detached(e.cfg.SettleTimeout)
		rec, first, err = r.plan.Commit(ctx, r.call.claim(e), end)
		cancel()
		switch {
		case errors.Is(err, store.ErrFateUnknown), errors.Is(err, store.ErrTxLost):
			if losses++; losses == maxLosses {
				return rec, false, err
			}
			e.observeStoreError(r.ctx, r.call, err)
		case errors.Is(err, store.ErrConflict):
			if conflicts++; conflicts == maxConflicts {
				return rec, false, err
			}
			e.observe(r.ctx, Event{Kind: EventConflict, Route: r.call.Route.Name, ID: r.owner.ID})
			sleep(r.ctx, conflictPause(conflicts))
		default:
			return rec, first, err
		}
	}
}

// settleUnclaimed ends a run whose claim was not committed with its work: it commits both without the work. If a
// follower has claimed the key for the run, there is a claim to settle. The run has lost its key if there is any other
// record now.
func (r *run) settleUnclaimed(s store.Settlement) error {
	r.plan.Discard()
	if r.member.planned(r.call) != nil {
		return r.settleClaimed(s)
	}
	rec, first, err := r.commitPlan(s)
	switch {
	case err == nil && !first && r.call.owns(&rec):
		return r.settleClaimed(s)
	case err != nil:
		r.engine.observeStoreError(r.ctx, r.call, err)
		return err
	case !first:
		return store.ErrLeaseLost
	default:
		return nil
	}
}
