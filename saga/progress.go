package saga

import (
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// A progress is how far one saga has come, as its owner knows it: what the
// journal has, and what is under way. What follows from it is decided in
// decide.go, by pure functions; nothing here does I/O or reads a clock.
type progress struct {
	plan     *plan
	status   Status // Running or Compensating
	cancel   bool
	claimed  time.Time // when the first engine got it
	begun    time.Time // the same, or when a verb set it going again
	turned   time.Time // zero: not
	deadline time.Time // zero: none
	renewed  bool      // the journal does not have the deadline yet
	forward  []leg     // by index of the step
	undo     []leg
	running  int // calls under way
}

// A leg is one direction of a step: its call, or its undo.
type leg struct {
	known   bool // an entry or a try says something
	running bool // a call is under way
	final   bool
	// maybe says that some try may have had its effect: by this owner, or by
	// one before it. Only what proves the opposite turns it.
	maybe   bool
	opened  bool // of the pivot: the journal says that it begins, or more
	tried   bool // by this owner, or by one whose answers are all known
	lost    bool // not to be sent again, and nobody knows how it ended
	unsaid  bool // the journal does not have it yet
	dirty   bool // and the next write is to have it
	outcome retry.Outcome
	result  []byte
	tries   int
	retryAt time.Time
	at      time.Time    // when it ended, if it is final
	entry   Entry        // for people: what was seen last
	calls   *retry.Calls // that its function made; nil: none yet
}

// completed reports whether the leg ended well.
func (l *leg) completed() bool { return l.final && l.outcome == retry.Completed }

// harmless reports whether the leg ended without an effect.
func (l *leg) harmless() bool {
	return l.final && (l.outcome == retry.Rejected || l.outcome == retry.NotSent)
}

// neverAnswered reports whether the callee says that no run of the call ever had
// an answer: then no owner got one.
func (l *leg) neverAnswered() bool {
	return l.final && (l.entry.Code == wire.OutcomeUnknown || l.entry.Code == wire.Poisoned)
}

// load returns the progress of the saga in r. trusted says that the entries have all that
// any engine sent.
func (p *plan) load(r Record, trusted bool) (*progress, error) {
	if r.Corrupt != nil {
		return nil, r.Corrupt
	}
	g := &progress{
		plan: p, status: r.Status, cancel: r.Cancel,
		claimed: r.FirstClaimedAt, begun: later(r.FirstClaimedAt, r.ResumedAt), turned: r.Turned, deadline: r.DeadlineAt,
		forward: make([]leg, len(p.steps)), undo: make([]leg, len(p.steps)),
	}
	if g.deadline.IsZero() {
		g.deadline = p.deadline(g.claimed)
	}
	for _, e := range r.Entries {
		s := p.find(e.Step)
		if s == nil || e.Undo && s.undo == nil {
			return nil, fmt.Errorf("%w: an entry for %q, which is no step", ErrCorrupt, e.Step)
		}
		l := g.leg(task{s, e.Undo})
		*l = leg{
			known: true, opened: true, final: !e.Pending, lost: e.Pending && e.Code == wire.KeyExpired, outcome: e.Outcome, result: e.Result,
			tries: e.Tries, retryAt: e.RetryAt, at: e.At, entry: e,
			maybe: e.Pending && e.Outcome == retry.Unknown, tried: trusted && e.Tries > 0,
		}
	}
	if !trusted {
		g.doubt()
	}
	return g, nil
}

// deadline returns the deadline of a saga that the first engine got at that time, if the
// journal has no other one.
func (p *plan) deadline(claimed time.Time) time.Time {
	switch {
	case !slices.ContainsFunc(p.steps, (*step).canFail): // it can only go forward
		return claimed.Add(p.undoBudget)
	case p.timeout > 0:
		return claimed.Add(p.timeout)
	}
	return time.Time{}
}

// renew gives the saga the undo budget from now on.
func (g *progress) renew(now time.Time) { g.deadline, g.renewed = now.Add(g.plan.undoBudget), true }

// doubt marks what an owner before this one may have sent without writing
// anything of it.
func (g *progress) doubt() {
	for i := range g.plan.steps {
		if f := &g.forward[i]; !f.final {
			f.maybe = g.status == Running && g.plan.steps[i] != g.plan.pivot && g.reachable(i) || f.known
		}
		// The turn is written before an undo is sent, with an entry for each call that may
		// have to be undone.
		if u := &g.undo[i]; !u.final {
			f := &g.forward[i]
			u.maybe = g.status == Compensating && f.known && !f.harmless()
		}
	}
}

// reachable reports whether step i may have been begun: an owner writes what a
// step returned before it begins those behind it, or, with CheckpointEdges,
// writes nothing at all. The pivot has begun only where the journal says so.
func (g *progress) reachable(i int) bool {
	for _, b := range g.plan.steps[i].before {
		f := &g.forward[b]
		switch {
		case f.completed():
			continue
		case g.plan.steps[b] == g.plan.pivot && !f.known: // its beginning is always written
		case g.plan.edges && !f.final && g.reachable(b):
			continue
		}
		return false
	}
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// A task is a call to make.
type task struct {
	step *step
	undo bool
}

func (g *progress) leg(t task) *leg {
	if t.undo {
		return &g.undo[t.step.index]
	}
	return &g.forward[t.step.index]
}

// calls returns the notes of the calls that the task's function makes; nil if the task is
// no function. All tries by this owner share them. What an earlier try did stays done if a
// later one calls something else.
func (g *progress) calls(t task) *retry.Calls {
	a, l := t.step.address, g.leg(t)
	if t.undo {
		a = *t.step.undo
	}
	if l.calls == nil && a.shape == function {
		l.calls = new(retry.Calls)
	}
	return l.calls
}

// begin books a call that is about to be sent.
func (g *progress) begin(t task) {
	g.leg(t).running = true
	g.running++
}

// end books how a call ended. It is to be tried again after wait, if at all.
func (g *progress) end(t task, v verdict, now time.Time, wait time.Duration) {
	l := g.leg(t)
	g.running--
	l.running, l.known, l.tried, l.unsaid = false, true, true, true
	l.tries++
	if v.outcome == retry.NotSent && l.maybe {
		v.outcome = retry.Unknown // this try was not sent, an earlier one may have been
	}
	l.outcome, l.result, l.lost = v.outcome, v.result, v.lost
	l.maybe = v.outcome == retry.Unknown
	l.final = g.finalFor(t, v)
	l.lost = l.lost || v.stop && !l.final
	l.at, l.retryAt = now, time.Time{}
	if !l.final {
		l.retryAt = now.Add(wait)
	}
	l.entry.Status, l.entry.Code, l.entry.Detail, l.entry.Forced = v.status, v.code, v.detail, ""
	l.entry.Problem, l.entry.Nothing = v.problem, v.nothing
}

// finalFor reports whether the task is not to be tried again after v.
func (g *progress) finalFor(t task, v verdict) bool {
	switch v.outcome {
	case retry.Completed:
		return true
	case retry.Unknown:
		// The callee itself does not know and will not. What can be undone is,
		// without an output; anything else is asked for until its time is up.
		return v.deadEnd && (t.undo || t.step.undo != nil || v.stop && t.step.leavesNothing())
	default:
		// While compensating, what had no effect is not tried again.
		return !v.again || g.status == Compensating && !t.undo
	}
}

// write returns the entry for a leg that is about to be written.
func (g *progress) write(t task) Entry {
	l := g.leg(t)
	l.dirty, l.unsaid = false, false
	return g.entry(t)
}

// entry returns the entry for a leg as it stands.
func (g *progress) entry(t task) Entry {
	l := g.leg(t)
	e := l.entry
	e.Step, e.Undo = t.step.name, t.undo
	e.Outcome, e.Pending, e.Tries = l.outcome, !l.final, l.tries
	e.RetryAt, e.At, e.Result = l.retryAt, l.at, l.result
	return e
}

// tellable reports whether entries can say all that the owner knows. They cannot say that a
// call is given up although nobody knows how it ended, and nor which calls the tries of a
// function made.
func (g *progress) tellable() bool {
	for i := range g.plan.steps {
		for _, l := range [...]*leg{&g.forward[i], &g.undo[i]} {
			if l.final {
				continue
			}
			if made := l.calls.Outcome(); l.lost || made == retry.Unknown || made == retry.Completed {
				return false
			}
		}
	}
	return true
}

// tell makes the next write say all that the owner knows: also of the calls of which an owner
// before this one may have sent some, and of tries that were not worth a write.
func (g *progress) tell(now time.Time) {
	for i := range g.plan.steps {
		for _, l := range [...]*leg{&g.forward[i], &g.undo[i]} {
			if l.maybe && !l.known {
				l.known, l.outcome, l.at, l.unsaid = true, retry.Unknown, now, true
			}
			l.dirty = l.dirty || l.unsaid
		}
	}
}

// committed reports whether the saga is past the point where it could be
// undone.
func (g *progress) committed() bool {
	if p := g.plan.pivot; p != nil {
		return g.forward[p.index].completed()
	}
	for _, s := range g.plan.steps {
		if s.canFail() && !g.forward[s.index].completed() {
			return false
		}
	}
	return true
}

// turn makes the saga go back, and returns the entries that say what is to be
// resolved first: what is under way, or may have been sent.
func (g *progress) turn(now time.Time) []Entry {
	g.status, g.turned = Compensating, now
	g.renew(now)
	var entries []Entry
	for _, s := range g.plan.steps {
		l := &g.forward[s.index]
		switch {
		case l.final, !l.known && !l.running && !l.maybe && !l.opened:
			continue
		case l.running || l.maybe:
			l.outcome, l.retryAt = retry.Unknown, time.Time{}
		default:
			l.final = true // it was tried and had no effect, or was written and not begun
			if !l.known {
				l.outcome = retry.NotSent
			}
		}
		l.known, l.at = true, now
		entries = append(entries, g.write(task{s, false}))
	}
	return entries
}

// facts returns what the saga knows of what the nodes are made from. What others
// wrote of it was found legible before.
func (g *progress) facts(input []byte, nodes ...*node) (*facts, error) {
	f := &facts{outputs: make([]any, len(g.plan.steps))}
	for _, n := range nodes {
		if n.input && f.input == nil {
			var err error
			if f.input, err = g.plan.input.decode(input); err != nil {
				return nil, err
			}
		}
		for _, i := range n.needs {
			if err := g.decode(f, i); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// decode adds the output of step i to f, if there is one.
func (g *progress) decode(f *facts, i int) (err error) {
	l, s := &g.forward[i], g.plan.steps[i]
	if f.outputs[i] != nil || !l.completed() || l.result == nil {
		return nil
	}
	if f.outputs[i], err = s.output.decode(l.result); err != nil {
		return fmt.Errorf("output of %s: %w", s.name, err)
	}
	return nil
}

// legible returns an error if the journal has something that this process cannot
// read to the last member, and that is needed from here on in the saga's
// direction: then nothing more is called.
func (g *progress) legible(input []byte, now time.Time) error {
	fromInput, outputs := g.reads(now)
	if fromInput {
		if err := g.plan.input.check(input); err != nil {
			return fmt.Errorf("input: %w", err)
		}
	}
	for i, s := range g.plan.steps {
		l := &g.forward[i]
		if !outputs[i] || !l.completed() || l.result == nil {
			continue
		}
		if err := s.output.check(l.result); err != nil {
			return fmt.Errorf("output of %s: %w", s.name, err)
		}
	}
	return nil
}

// reads returns what is read from here on in the saga's direction: whether its input
// is, and which steps' outputs. Going forward that is all that anybody reads. Going
// back it is what the calls are made from that are still due, and the outputs that
// their undos get; what was never begun, was refused or is undone needs nothing more.
func (g *progress) reads(now time.Time) (input bool, outputs []bool) {
	outputs = make([]bool, len(g.plan.steps))
	for i, s := range g.plan.steps {
		if g.status == Running {
			input, outputs[i] = true, s.needed
			continue
		}
		if at := g.standing(s, now); at == cleared || at == blocked {
			continue
		}
		input = input || s.input.input
		outputs[i] = true
		for _, b := range s.data {
			outputs[b] = true
		}
	}
	return input, outputs
}
