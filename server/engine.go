package server

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// do answers a call: it is the one door of the engine. It returns when the
// call has run and is settled, or is refused, or has its replay. A panic or
// Goexit of the handler passes through it after the key was settled.
func (g *Guard) do(ctx context.Context, c *call) (out outcome) {
	if !g.gate.enter() {
		return g.closingRefusal()
	}
	defer g.gate.leave()
	if out, ok := g.recall(c); ok {
		g.observeOutcome(c, out)
		return out
	}
	if c.token == (Token{}) { // a memo is sealed for it
		c.token = newToken()
	}
	s := g.flights.join(c.id)
	s.scope, s.bytes = c.subject.scope, c.bytes
	defer s.leave()
	p := &patience{until: time.Now().Add(c.wait), none: c.wait <= 0}
	began := time.Now()
	for {
		decided := true
		if s.lead() {
			out = g.lead(ctx, c, s, p)
		} else {
			out, decided = g.follow(ctx, c, s, p)
		}
		if decided {
			break
		}
	}
	out.asked = true
	if out.waited = p.used; out.waited {
		g.observe(Event{Kind: EventWaited, Route: c.route.Name, ID: c.id, Duration: time.Since(began)})
	}
	g.observeOutcome(c, out)
	return out
}

// patience is how long one call waits for somebody else's run.
type patience struct {
	until time.Time
	none  bool // may not wait, or no longer
	used  bool
}

func (p *patience) left() time.Duration {
	if p.none {
		return 0
	}
	return time.Until(p.until)
}

// start reports whether there is patience left; the first time it needs a
// place among the waiters.
func (p *patience) start(g *Guard, s *seat) bool {
	if !p.none && !p.used {
		p.none = !s.admit(g.cfg.waitCap())
	}
	if p.left() <= 0 {
		return false
	}
	p.used = true
	return true
}

// lead asks the store, as often as the call's patience allows, and runs if the
// key becomes its own.
func (g *Guard) lead(ctx context.Context, c *call, s *seat, p *patience) outcome {
	w := g.newWatch()
	defer w.end()
	for known := false; ; known = true {
		if ctx.Err() != nil { // nobody listens, and nothing was claimed
			return outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: context.Cause(ctx)}
		}
		s.asking()
		f, err := g.ask(ctx, c, known)
		if errors.Is(err, ErrInProgress) {
			s.contend()
			if !p.start(g, s) || !w.pause(ctx, s, new(Record), p.left()) {
				s.failed(err) // or each follower would find out by itself, one after the other
				return storeRefusal(err)
			}
			continue
		}
		if err != nil {
			g.observeStoreError(c, err)
			if !errors.Is(err, ErrExpired) { // that is about this request's own first-sent time
				s.failed(err)
			}
			return storeRefusal(err)
		}
		if f.mine {
			return g.run(ctx, c, s, f)
		}
		s.found(f.record)
		g.cache.put(&f.record)
		if g.settledByReconciler(ctx, c, s, &f) {
			continue
		}
		if f.verdict != verdictWait {
			return g.answered(c, f.decision, &f.record)
		}
		busy := g.busyRefusal(&f.record)
		if !p.start(g, s) {
			return busy
		}
		if !w.pause(ctx, s, &f.record, p.left()) {
			return busy // a follower takes the lead
		}
	}
}

// A glance is what a follower does next.
type glance uint8

const (
	glanceAnswer  glance = iota + 1 // the decision is its answer
	glanceFail                      // the store's error is its answer
	glanceLead                      // nobody leads: try to
	glanceHold                      // a short store call is under way: wait for it
	glancePatient                   // somebody runs: wait as patience allows
)

// look is what a follower makes of a view. It is pure.
func look(v view, fp Fingerprint, maxDeaths int) (glance, decision) {
	d := decide(&v.record, fp, maxDeaths)
	switch {
	case v.final:
		return glanceAnswer, d
	case errors.Is(v.err, ErrInProgress):
		return glancePatient, d // the leader does not wait any more, for reasons of its own
	case v.err != nil:
		return glanceFail, d
	case v.phase == phaseSettling:
		// The outcome may be visible to others: in-progress would be a lie.
		return glanceHold, d
	case v.phase == phaseContended:
		return glancePatient, d
	case v.phase == phaseRunning && d.verdict == verdictRefuse:
		return glanceAnswer, d // another fingerprint than the run's
	case v.phase == phaseRunning:
		return glancePatient, d
	case v.fresh && (d.verdict == verdictRefuse || d.verdict == verdictReplay):
		return glanceAnswer, d
	case v.fresh && d.verdict == verdictWait:
		return glancePatient, d
	case !v.led:
		return glanceLead, d
	default:
		return glanceHold, d
	}
}

// follow waits for the leader. It returns false if there is none any more.
func (g *Guard) follow(ctx context.Context, c *call, s *seat, p *patience) (outcome, bool) {
	timer := time.NewTimer(p.left())
	defer timer.Stop()
	for {
		v := s.view()
		glance, d := look(v, c.fingerprintFor(&v.record), g.cfg.MaxDeaths)
		var expired <-chan time.Time
		switch glance {
		case glanceAnswer:
			return g.answered(c, d, &v.record), true
		case glanceFail:
			return storeRefusal(v.err), true
		case glanceLead:
			return outcome{}, false
		case glancePatient:
			switch {
			case !p.start(g, s):
				return g.busyView(v), true
			case !v.led:
				return outcome{}, false
			}
			expired = timer.C
		case glanceHold:
			if v.phase == phaseIdle {
				s.hurry()
			}
		}
		select {
		case <-v.changed:
		case <-expired:
			p.none = true
		case <-g.gate.closing:
			return g.closingRefusal(), true
		case <-ctx.Done():
			return g.busyView(v), true
		}
	}
}

// answered is the outcome of a decision that needs no further step.
func (g *Guard) answered(c *call, d decision, rec *Record) outcome {
	switch {
	case d.verdict == verdictReplay:
	case d.code == wire.OutcomeUnknown && c.route.Reconcile != nil: // not decided yet
		return outcome{code: d.code, retryable: true, retryAfter: max(rec.LeaseLeft(), time.Second)}
	default:
		return outcome{code: d.code}
	}
	answer, err := g.openAnswer(rec)
	switch {
	case err != nil:
		g.observe(Event{Kind: EventSealError, Route: c.route.Name, ID: rec.ID, Err: err})
		return outcome{code: wire.RecordUnreadable, err: err}
	case answer.isReference() && c.route.Render == nil:
		return outcome{code: wire.ResponseGone}
	}
	return outcome{replay: &answer}
}

// busyRefusal refuses a duplicate of a run in another process.
func (g *Guard) busyRefusal(rec *Record) outcome {
	return outcome{code: wire.InProgress, retryAfter: retryAfter(runAge(rec, g.cfg.Lease), rec.LeaseLeft())}
}

// contendedRefusal refuses a call whose key another transaction is deciding about.
func contendedRefusal() outcome {
	return outcome{code: wire.InProgress, retryAfter: contendedRetryAfter}
}

// contendedRetryAfter is about how long the transaction of an undo takes.
const contendedRetryAfter = time.Second

// busyView refuses a duplicate by what the flight knows.
func (g *Guard) busyView(v view) outcome {
	if v.phase == phaseContended || v.err != nil {
		return contendedRefusal()
	}
	if v.phase == phaseRunning || v.phase == phaseSettling {
		return outcome{code: wire.InProgress, retryAfter: retryAfter(time.Since(v.started), g.cfg.Lease)}
	}
	return g.busyRefusal(&v.record)
}

func (g *Guard) closingRefusal() outcome {
	return outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: ErrShutdown}
}
