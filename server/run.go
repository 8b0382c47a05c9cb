package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// ErrHandlerTimeout is the cause that a run's ctx ends with after
// [Config.HandlerTimeout].
var ErrHandlerTimeout = errors.New("server: handler timeout")

// A run is one hold on a key, from the claim until it is settled.
type run struct {
	guard  *Guard
	call   *call
	seat   *seat
	owner  Owner
	record Record    // as claimed
	asked  time.Time // by this process's clock, just before the claim

	ctx    context.Context //nolint:containedctx // it is the run's life
	cancel context.CancelCauseFunc
	lost   sync.Once
	taken  bool // the store said that somebody else owns the key
}

// run runs a claimed call and settles it.
func (g *Guard) run(ctx context.Context, c *call, s *seat, f finding) outcome {
	r := &run{
		guard: g, call: c, seat: s, record: f.record, asked: f.asked,
		owner: Owner{ID: c.id, Token: c.token, Fence: f.record.Fence},
	}
	stop := r.open(ctx)
	defer stop()
	if g.gate.isClosed() {
		r.release(false)
		return g.closingRefusal()
	}
	s.running(f.record)
	if c.route.Effect == Transactional {
		return r.transact()
	}
	return r.direct()
}

// open makes the run's ctx and starts its heartbeat. The caller may hang up
// and take ctx with it; the run goes on, for its effects would be made again
// by the caller's retry.
func (r *run) open(ctx context.Context) (stop func()) {
	in := r.call.inbound
	in.FirstSent = r.record.CreatedAt
	in.Rerun = r.owner.Fence > 1 // also where the earlier one says that it did nothing: nobody checked
	ctx = context.WithoutCancel(ctx)
	ctx = childkey.NewContext(ctx, r.call.hop)
	ctx = wire.NewContext(ctx, in)
	ctx, stopTimer := context.WithTimeoutCause(ctx, r.guard.cfg.HandlerTimeout, ErrHandlerTimeout)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.guard.pulse.add(r)
	return func() {
		r.guard.pulse.remove(r)
		r.cancel(nil)
		stopTimer()
	}
}

// detached returns a ctx for settling: neither the client nor the handler's
// deadline ends it.
func (r *run) detached(timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), timeout)
}

// direct runs a Keyed or Opaque call.
func (r *run) direct() outcome {
	t := &turn{run: r}
	res := t.work(r.ctx, func() {
		r.guard.observe(Event{Kind: EventPanic, Route: r.call.route.Name, ID: r.owner.ID})
		r.fail()
	})
	switch t.disposition(res) {
	case dispositionRelease:
		r.release(false)
		return t.served(res, true)
	case dispositionAgain:
		r.release(true)
		return t.served(res, true)
	case dispositionFail:
		r.fail()
		return t.served(res, r.call.route.Effect != Opaque || r.call.route.Reconcile != nil)
	default:
		return r.complete(t, res)
	}
}

// lose ends the run's ctx: as far as this process knows, it does not own its
// key any more. Its settlement is tried all the same, for perhaps nobody took
// over.
func (r *run) lose() {
	r.lost.Do(func() {
		r.guard.observe(Event{Kind: EventLeaseLost, Route: r.call.route.Name, ID: r.owner.ID})
		r.cancel(ErrLeaseLost)
	})
}

// isLost reports whether the run was told that it lost its lease.
func (r *run) isLost() bool { return errors.Is(context.Cause(r.ctx), ErrLeaseLost) }

func leaseLost() outcome {
	return outcome{code: wire.LeaseLost, retryAfter: time.Second, err: ErrLeaseLost}
}

// served is the outcome of a turn whose answer is not stored.
func (t *turn) served(res result, again bool) outcome {
	switch {
	case t.refusal != "":
		return outcome{code: t.refusal, retryAfter: time.Second, err: t.cause}
	case res.unfit, res.dropped:
		return outcome{code: wire.NotStorable}
	case t.run.taken, again && t.run.isLost():
		return leaseLost()
	default:
		return outcome{ran: true, again: again && !t.vetoed}
	}
}

// complete stores the answer of a Keyed or Opaque turn, together with what its
// hooks write.
func (r *run) complete(t *turn, res result) outcome {
	s := r.completion(t, res)
	var err error
	if len(t.hooks) == 0 {
		err = r.settle(s)
	} else {
		err = r.settleWithHooks(t.hooks, s)
	}
	out := r.completed(s, err)
	if out.ran && res.dropped {
		return outcome{code: wire.ResponseGone} // completed, but its answer was too large to keep in memory
	}
	return out
}

func (r *run) completion(t *turn, res result) Settlement {
	answer := res.answer
	if t.reference != nil {
		answer.Envelope = append([]byte{formReference}, *t.reference...)
	}
	answer = r.guard.sealAnswer(r.call.route.Name, r.owner, answer)
	return Settlement{
		State: StateCompleted, Answer: answer, ReplayFor: r.guard.cfg.replayFor(), KeepAnswer: r.guard.cfg.BodyRetention,
	}
}

// completed is the outcome of a completion that the store answered with err.
func (r *run) completed(s Settlement, err error) outcome {
	if err == nil {
		r.land(s.Answer)
		return outcome{ran: true}
	}
	var failed *hookError
	switch {
	case errors.Is(err, ErrLeaseLost):
		r.lose()
		return outcome{code: wire.LeaseLost, retryAfter: time.Second, err: err}
	case errors.As(err, &failed):
		return r.hooksFailed(failed)
	default:
		// The work is done and its record is not. The claim stays: releasing
		// it would invite a second run.
		return outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: err}
	}
}

// land tells the followers and the observer that the run is recorded.
func (r *run) land(a Answer) {
	rec := r.record
	elapsed := time.Since(r.asked)
	rec.State, rec.Answer = StateCompleted, a
	rec.Now = rec.Now.Add(elapsed)
	rec.ReplayUntil = rec.Now.Add(r.guard.cfg.replayFor())
	r.seat.found(rec)
	r.guard.cache.put(&rec)
	r.guard.observe(Event{
		Kind: EventSettled, Route: r.call.route.Name, ID: r.owner.ID,
		Duration: rec.Now.Sub(rec.CreatedAt),
	})
	if a.Envelope == nil {
		r.guard.observe(Event{Kind: EventTombstone, Route: r.call.route.Name, ID: r.owner.ID})
	}
}

// fail settles a run that failed after it may have had effects.
func (r *run) fail() {
	if r.call.route.Effect == Opaque {
		r.guard.observe(Event{Kind: EventUnknown, Route: r.call.route.Name, ID: r.owner.ID})
		_ = r.settle(Settlement{State: StateUnknown, MaybeRan: true}) // observed there; else the lease ends it
		return
	}
	r.release(true)
}

// release makes the next call run. If the store does not answer, the end of
// the lease does the same.
func (r *run) release(maybeRan bool) {
	_ = r.settle(Settlement{State: StateReleased, MaybeRan: maybeRan})
}

// die makes the run count as dead: its lease ends now, and the next call takes the
// key over, or finds it quarantined.
func (r *run) die() {
	r.guard.pulse.remove(r) // or a renewal would bring the run back to life
	_ = r.settle(Settlement{State: StateInProgress})
}

// settle settles, again and again for a bounded time: the effect has happened,
// and repeating is safe, for the owner is named by token and fence.
func (r *run) settle(s Settlement) error {
	err := r.insist(func(ctx context.Context) error {
		return r.guard.store.Settle(ctx, r.owner, s)
	})
	r.taken = errors.Is(err, ErrLeaseLost)
	return err
}

// insist repeats try until it succeeds, until its error is an answer, or until
// the settle timeout.
func (r *run) insist(try func(context.Context) error) error {
	r.seat.settling()
	end := time.Now().Add(r.guard.cfg.SettleTimeout)
	for wait := pollFirst; ; wait = min(2*wait, pollLast) {
		once, stop := r.detached(min(time.Until(end), r.guard.cfg.StoreTimeout))
		err := try(once)
		stop()
		if err == nil {
			return nil
		}
		r.guard.observeStoreError(r.call, err)
		if isAnswer(err) {
			return err
		}
		pause, left := wait/2+rand.N(wait/2), time.Until(end)
		time.Sleep(min(pause, left))
		if pause >= left {
			return err
		}
		r.guard.observe(Event{Kind: EventSettleRetry, Route: r.call.route.Name, ID: r.owner.ID})
	}
}

// isAnswer reports whether asking the store again would give the same.
func isAnswer(err error) bool {
	var failed *hookError
	return errors.Is(err, ErrLeaseLost) || errors.As(err, &failed) || errors.Is(err, errStop)
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
