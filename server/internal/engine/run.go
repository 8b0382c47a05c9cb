package engine

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// ErrHandlerTimeout is the cause that a run's ctx ends with after
// Config.HandlerTimeout, or that of its route.
var ErrHandlerTimeout = errors.New("server: handler timeout")

// A run is one ownership of a key, from the claim until it is settled.
type run struct {
	engine *Engine
	call   *Call
	member *member
	owner  store.Owner
	record store.Record // as claimed
	asked  time.Time    // by this process's clock, just before the claim

	ctx    context.Context //nolint:containedctx // it is the run's life
	cancel context.CancelCauseFunc
	beyond context.Context //nolint:containedctx // ctx without its end, for settling
	lease  heldLease
	lost   atomic.Bool
	taken  bool // the store said that another owner has the key
	// recorded means that the completion is in the store. completing is the cache's mark from before it was sent.
	recorded   bool
	completing uint64

	keyless bool // there is no claim, and nothing to settle

	durable atomic.Bool // the claim is durable, as far as the store said
	confirm sync.Once   // makes it durable
}

// run runs a claimed call and settles it.
func (e *Engine) run(ctx context.Context, c *Call, m *member, f finding) Outcome {
	r := &run{
		engine: e, call: c, member: m, record: f.record, asked: f.asked,
		owner: store.Owner{ID: c.ID, Token: c.Token, Fence: f.record.Fence},
	}
	r.durable.Store(!f.record.Asynchronous)
	defer r.open(ctx)()
	if e.drain.isClosed() {
		r.release(false)
		return interruptedRefusal()
	}
	m.beginRun(f.record)
	var out Outcome
	if c.Route.Effect == store.Transactional {
		out = r.transact()
	} else {
		out = r.runDirect()
	}
	if r.isLost() && !r.recorded {
		out = r.interruptedOutcome(out)
	}
	r.observeFailure(out)
	return out
}

// interruptedOutcome returns what the caller of a run without its lease gets in place of the handler's own failure: a
// handler whose ctx ended says little about the call.
func (r *run) interruptedOutcome(out Outcome) Outcome {
	switch {
	case !out.Ran && out.Code != wire.TransactionFailed:
		return out
	case !r.taken && r.call.Route.Effect == store.Opaque && !out.Again:
		return Outcome{Code: wire.OutcomeUnknown, Err: store.ErrLeaseLost}
	default:
		return leaseLostRefusal()
	}
}

// open makes the run's ctx and starts its heartbeat. The caller may hang up,
// which ends its own ctx. The run goes on: otherwise the caller's retry would
// make its effects again.
func (r *run) open(ctx context.Context) (stop func()) {
	in := r.call.Inbound
	in.FirstSent = r.record.CreatedAt
	in.Parent = r.owner.ID
	in.Rerun = r.owner.Fence > 1 // also if the earlier run says that it had no effect: that is not checked
	ctx = context.WithoutCancel(ctx)
	ctx = childkey.NewContext(ctx, r.call.Hop)
	ctx, ended := r.startTrace(ctx)
	if !r.durable.Load() {
		in.Confirm = r.makeDurable
	}
	r.beyond = wire.NewContext(ctx, in)
	end := r.limit(r.beyond)
	r.engine.heartbeat.add(r)
	return func() {
		r.engine.heartbeat.remove(r)
		end()
		ended()
	}
}

// limit makes the run's ctx of ctx, with the deadline of its route.
func (r *run) limit(ctx context.Context) (end func()) {
	timeout := cmp.Or(r.call.Route.HandlerTimeout, r.engine.cfg.HandlerTimeout)
	ctx, stopTimer := context.WithTimeoutCause(ctx, timeout, ErrHandlerTimeout)
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return func() {
		r.cancel(nil)
		stopTimer()
	}
}

// newSettleContext returns a ctx for settling: neither the client nor the handler's
// deadline ends it.
func (r *run) newSettleContext(timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.beyond, timeout)
}

// runDirect runs a Keyed or Opaque call.
func (r *run) runDirect() Outcome {
	a := &Attempt{run: r}
	res := a.work(r.ctx, func() {
		r.observePanic()
		r.fail()
	})
	switch a.disposition(res) {
	case Release:
		r.release(false)
		return a.outcomeOf(res, true)
	case rerun:
		r.release(true)
		return a.outcomeOf(res, true)
	case Fail:
		r.fail()
		return a.outcomeOf(res, r.call.Route.Effect != store.Opaque || r.call.Route.Reconcile != nil)
	default:
		return r.complete(a, res)
	}
}

// lose ends the run's ctx: as far as this process knows, it does not own its
// key any more. Its settlement is still tried, because perhaps no other owner
// took the key over. The caller holds no lock, and no other run waits for it: it calls the Observer.
func (r *run) lose() { loseAll([]*run{r}) }

// loseAll is lose for several runs. All of them end before the Observer is told of the first.
func loseAll(runs []*run) {
	var told []*run
	for _, r := range runs {
		if r.lost.CompareAndSwap(false, true) {
			r.cancel(store.ErrLeaseLost)
			told = append(told, r)
		}
	}
	for _, r := range told {
		r.engine.observe(r.beyond, store.Event{Kind: store.EventLeaseLost, Route: r.call.Route.Name, ID: r.owner.ID})
	}
}

// isLost reports whether the run was told that it lost its lease.
func (r *run) isLost() bool { return errors.Is(context.Cause(r.ctx), store.ErrLeaseLost) }

func leaseLostRefusal() Outcome {
	return Outcome{Code: wire.LeaseLost, RetryAfter: time.Second, Err: store.ErrLeaseLost}
}

// outcomeOf returns the outcome of an attempt whose answer is not stored.
func (a *Attempt) outcomeOf(res Result, again bool) Outcome {
	switch {
	case a.refusal == wire.TransactionFailed:
		return a.run.cutShort(a.cause)
	case a.refusal != "":
		return Outcome{Code: a.refusal, RetryAfter: time.Second, Err: a.cause}
	case res.Unfit, res.Dropped:
		return Outcome{Code: wire.NotStorable}
	case a.run.taken, again && a.run.isLost():
		return leaseLostRefusal()
	default:
		return Outcome{Ran: true, Again: again && !a.how.NotRetryable, Failed: a.disposition(res) == Fail}
	}
}

// complete stores the answer of a Keyed or Opaque attempt, together with the rows of its
// hooks.
func (r *run) complete(a *Attempt, res Result) Outcome {
	s := r.completion(a, res)
	out := r.concludeCompletion(s, r.finish(a, s))
	if out.Ran && res.Dropped {
		return Outcome{Code: wire.ResponseGone} // completed, but its answer was too large to keep in memory
	}
	return out
}

// finish stores the completion s of a Keyed or Opaque attempt.
func (r *run) finish(a *Attempt, s store.Settlement) error {
	if a.hasUndone(s.Answer) {
		err := r.insist(func(ctx context.Context) error { return a.writeTombstone(ctx, r.engine.store) })
		if err != nil {
			return err
		}
	}
	if len(a.hooks) == 0 || a.discardsRows(s.Answer) {
		return r.settle(s)
	}
	return r.settleWithHooks(a.hooks, s)
}

func (r *run) completion(a *Attempt, res Result) store.Settlement {
	answer := res.Answer
	if text := a.how.Reference; text != nil {
		answer.Envelope = record.Reference(*text)
	}
	r.completing = r.engine.cache.mark()
	answer = r.engine.sealAnswer(r.ctx, r.call.Route.Name, r.owner, r.withTrace(answer))
	return store.Settlement{
		State: store.StateCompleted, Answer: answer, ReplayFor: r.engine.cfg.ReplayFor, KeepAnswer: r.engine.cfg.KeepAnswer,
		DeadLetter: a.how.DeadLetter,
	}
}

// concludeCompletion ends a run whose completion the store answered with err, and returns its outcome.
func (r *run) concludeCompletion(s store.Settlement, err error) Outcome {
	if !r.call.Forward.IsZero() {
		r.engine.cache.drop(r.call.ForwardID) // it may have been undone, whatever became of the answer
	}
	if err == nil {
		r.recorded = true
		r.publishCompletion(s.Answer)
		return Outcome{Ran: true, Recorded: true}
	}
	var failed *hookError
	switch {
	case errors.Is(err, store.ErrLeaseLost):
		r.lose()
		return Outcome{Code: wire.LeaseLost, RetryAfter: time.Second, Err: err}
	case errors.As(err, &failed):
		return r.settleHookError(failed)
	default:
		// The work is done and its record is not. The claim stays: releasing
		// it would invite a second run.
		return Outcome{Code: wire.StoreUnavailable, RetryAfter: time.Second, Err: err}
	}
}

// publishCompletion tells the followers and the observer that the run is recorded.
func (r *run) publishCompletion(a store.Answer) {
	r.durable.Store(true) // the completion is, and it came after the claim
	rec := r.record
	elapsed := time.Since(r.asked)
	rec.State, rec.Answer = store.StateCompleted, a
	rec.Now = rec.Now.Add(elapsed)
	rec.ReplayUntil = rec.Now.Add(r.engine.cfg.ReplayFor)
	r.member.setRecord(rec)
	r.engine.cache.put(&rec, r.completing)
	r.engine.observe(r.ctx, store.Event{
		Kind: store.EventSettled, Route: r.call.Route.Name, ID: r.owner.ID,
		Duration: rec.Now.Sub(rec.CreatedAt),
	})
	if a.Envelope == nil {
		r.engine.observe(r.ctx, store.Event{Kind: store.EventTombstone, Route: r.call.Route.Name, ID: r.owner.ID})
	}
}

// fail settles a run that failed after it may have had effects.
func (r *run) fail() {
	if r.call.Route.Effect == store.Opaque {
		r.engine.observe(r.ctx, store.Event{Kind: store.EventUnknown, Route: r.call.Route.Name, ID: r.owner.ID})
		_ = r.settle(store.Settlement{State: store.StateUnknown, MaybeRan: true}) // observed there; else the lease ends it
		return
	}
	r.releaseFailed(true)
}

// release makes the next call run. If the store does not answer, the end of
// the lease does the same.
func (r *run) release(maybeRan bool) {
	_ = r.settle(store.Settlement{State: store.StateReleased, MaybeRan: maybeRan, FailedAttempts: r.record.FailedAttempts})
}

// releaseFailed is release after the work failed. It counts as a failed attempt, unless the run was ended from outside:
// by a shutdown or with its lease.
func (r *run) releaseFailed(maybeRan bool) {
	n := r.record.FailedAttempts
	if cause := context.Cause(r.ctx); !errors.Is(cause, ErrShutdown) && !errors.Is(cause, store.ErrLeaseLost) {
		n = min(n+1, store.MaxFailedAttempts)
	}
	_ = r.settle(store.Settlement{State: store.StateReleased, MaybeRan: maybeRan, FailedAttempts: n})
}

// endLease makes the run count as dead: its lease ends now, and the next call takes the
// key over, or finds it quarantined.
func (r *run) endLease() {
	r.engine.heartbeat.remove(r) // or a renewal would bring the run back to life
	_ = r.settle(store.Settlement{State: store.StateInProgress, FailedAttempts: r.record.FailedAttempts})
}

// settle tries repeatedly, for a bounded time, to settle the run: the effect
// has happened. Repeating is safe, because token and fence name the owner.
func (r *run) settle(s store.Settlement) error {
	if r.keyless {
		return nil
	}
	err := r.insist(func(ctx context.Context) error {
		return r.engine.store.Settle(ctx, r.owner, s)
	})
	r.taken = errors.Is(err, store.ErrLeaseLost)
	if err != nil && !isAnswer(err) && s.State != store.StateInProgress {
		r.engine.unsettled.settleLater(r.call, r.owner, s)
	}
	return err
}

// insist repeats try until it succeeds, until its error is an answer, or until
// the settle timeout.
func (r *run) insist(try func(context.Context) error) error {
	r.member.beginSettle()
	end := time.Now().Add(r.engine.cfg.SettleTimeout)
	for wait := pollFirst; ; wait = min(2*wait, pollLast) {
		once, stop := r.newSettleContext(min(time.Until(end), r.engine.cfg.StoreTimeout))
		err := try(once)
		stop()
		if err == nil {
			return nil
		}
		r.engine.observeStoreError(r.ctx, r.call, err)
		if isAnswer(err) {
			return err
		}
		pause, left := wait/2+rand.N(wait/2), time.Until(end)
		time.Sleep(min(pause, left))
		if pause >= left {
			return err
		}
		r.engine.observe(r.ctx, store.Event{Kind: store.EventSettleRetry, Route: r.call.Route.Name, ID: r.owner.ID})
	}
}

// isAnswer reports whether the store would return the same error again.
func isAnswer(err error) bool {
	var failed *hookError
	return errors.Is(err, store.ErrLeaseLost) || errors.As(err, &failed) || errors.Is(err, errStop)
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
