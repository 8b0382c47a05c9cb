package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/internal/runctx"
	"github.com/fanonce/fanonce/server/store"
)

// Do answers a call: it is the only entry of the engine for calls. It returns
// when the call has run and is settled, or is refused, or has its replay. A
// panic or Goexit of the handler passes through it after the key was settled.
func (e *Engine) Do(ctx context.Context, c *Call) (out Outcome) {
	if !e.drain.enter() {
		out = ClosingRefusal()
		if c.Key.IsZero() {
			out.Detail = keylessDetail
		}
		return out
	}
	defer e.drain.leave()
	ctx = runctx.Leave(ctx) // of a run around this one
	if c.Key.IsZero() {
		return e.runKeyless(ctx, c)
	}
	if t := e.cfg.Tracer; t != nil {
		ctx = t.CallStarted(ctx, c.event(0))
		defer t.CallEnded(ctx)
	}
	if out, ok := e.recall(ctx, c); ok {
		e.observeOutcome(ctx, c, out)
		return out
	}
	if c.Token == (store.Token{}) { // a memo is sealed for it
		c.Token = NewToken()
	}
	m := e.groups.join(c.ID)
	m.scope, m.bytes = c.Subject.Scope, c.Bytes
	defer m.leave()
	p := &waitBudget{until: time.Now().Add(c.Wait), none: c.Wait <= 0}
	began := time.Now()
	for {
		decided := true
		if m.lead() {
			out = e.lead(ctx, c, m, p)
		} else {
			out, decided = e.follow(ctx, c, m, p)
		}
		if decided {
			break
		}
	}
	if d := c.doubtful; d != nil { // given up only now: until here the call could still win with its token
		e.unsettled.giveUpClaim(c, d.req, d.from)
	}
	out.Asked = true
	if out.Waited = p.used; out.Waited {
		e.observe(ctx, store.Event{Kind: store.EventWaited, Route: c.Route.Name, ID: c.ID, Duration: time.Since(began)})
	}
	e.observeOutcome(ctx, c, out)
	return out
}

// A waitBudget is the time that one call may wait for another call's run.
type waitBudget struct {
	until time.Time
	none  bool // may not wait, or no longer
	used  bool
}

func (w *waitBudget) left() time.Duration {
	if w.none {
		return 0
	}
	return time.Until(w.until)
}

// start reports whether there is time left. The first time it needs a place among the
// waiters.
func (w *waitBudget) start(e *Engine, m *member) bool {
	if !w.none && !w.used {
		w.none = !m.admit(e.cfg.Waiters)
	}
	if w.left() <= 0 {
		return false
	}
	w.used = true
	return true
}

// lead asks the store, as long as the call may wait, and runs if the call gets
// the key.
func (e *Engine) lead(ctx context.Context, c *Call, m *member, p *waitBudget) Outcome {
	w := e.newWatch()
	defer w.end()
	if ctx.Err() != nil { // nobody listens any more
		return Outcome{Code: wire.NotClaimed, RetryAfter: time.Second, Err: context.Cause(ctx)}
	}
	for known := c.mayRepeat(e.cfg.Lease); ; known = true {
		if ctx.Err() != nil { // nothing was claimed by this call, and another one may run
			return Outcome{Code: wire.StoreUnavailable, RetryAfter: time.Second, Err: context.Cause(ctx)}
		}
		m.beginAsk()
		since := e.cache.mark()
		f, err := e.ask(ctx, c, known)
		if errors.Is(err, store.ErrInProgress) {
			m.contend()
			if !p.start(e, m) || !w.pause(ctx, m, new(store.Record), p.left()) {
				m.setError(err) // otherwise each follower would ask by itself, one after the other
				return claimRefusal(err, c.doubtful != nil)
			}
			continue
		}
		if err != nil {
			if errors.As(err, new(*unclaimableError)) || errors.Is(err, store.ErrExpired) { // about this request alone
				return claimRefusal(err, c.doubtful != nil)
			}
			e.observeStoreError(ctx, c, err)
			m.setError(err)
			return claimRefusal(err, c.doubtful != nil)
		}
		if f.mine {
			return e.run(ctx, c, m, f)
		}
		m.setRecord(f.record)
		e.cache.put(&f.record, since)
		if e.settleByReconciler(ctx, c, m, &f) {
			continue
		}
		if f.action != actionWait {
			return e.toOutcome(ctx, c, f.decision, &f.record)
		}
		busy := e.busyRefusal(&f.record)
		if !p.start(e, m) {
			return busy
		}
		if !w.pause(ctx, m, &f.record, p.left()) {
			return busy // a follower takes the lead
		}
	}
}

// toOutcome returns the outcome of a decision that needs no further step.
func (e *Engine) toOutcome(ctx context.Context, c *Call, d decision, rec *store.Record) Outcome {
	switch {
	case d.action == actionReplay:
	case d.code == wire.OutcomeUnknown && c.Route.Reconcile != nil: // not decided yet
		return Outcome{Code: d.code, Retryable: true, RetryAfter: max(rec.LeaseLeft(), time.Second)}
	default:
		return Outcome{Code: d.code}
	}
	answer, err := e.cfg.Sealer.OpenAnswer(rec)
	switch {
	case err != nil:
		e.observe(ctx, store.Event{Kind: store.EventSealError, Route: c.Route.Name, ID: rec.ID, Err: err})
		return Outcome{Code: wire.RecordUnreadable, Err: err}
	case !c.CanRender && isReference(&answer):
		return Outcome{Code: wire.ResponseGone}
	}
	return Outcome{Replay: &answer, Trace: e.traceOf(&answer)}
}

// ClosingRefusal refuses a call of which nothing was claimed, while the engine shuts down.
func ClosingRefusal() Outcome {
	return Outcome{Code: wire.NotClaimed, RetryAfter: time.Second, Err: ErrShutdown, Detail: "The service is shutting down. " + notClaimed}
}

// interruptedRefusal refuses a call during a shutdown whose key this call or another one has claimed, or may have.
func interruptedRefusal() Outcome {
	return Outcome{Code: wire.StoreUnavailable, RetryAfter: time.Second, Err: ErrShutdown}
}

// isReference reports that the answer, opened, is a reference.
func isReference(a *store.Answer) bool {
	_, ok := record.ReferenceOf(a.Envelope)
	return ok
}
