package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A progress is the owner's knowledge of one saga: the journal's entries and the running calls.
// The pure functions in decide.go decide from it. No function in this file does I/O or reads a
// clock.
type progress struct {
	plan     *graph.Plan
	status   journal.Status // Running or Compensating
	cancel   bool
	claimed  time.Time // when the first engine got the saga
	begun    time.Time // the same, or when a verb resumed the saga
	failedAt time.Time // zero: it did not fail
	deadline time.Time // zero: none
	renewed  bool      // the journal does not have the deadline yet
	forward  []leg     // by index of the step
	undo     []leg
	running  int // running calls
}

// load returns the progress of the saga in r. trusted says that the entries have all calls that
// any engine sent.
func load(p *graph.Plan, r journal.Record, trusted bool) (*progress, error) {
	if r.Corrupt != nil {
		return nil, r.Corrupt
	}
	p, err := p.WithItems(r.Entries)
	if err != nil {
		return nil, err
	}
	loaded := &progress{
		plan: p, status: r.Status, cancel: r.Cancel,
		claimed: r.FirstClaimedAt, begun: later(r.FirstClaimedAt, r.ResumedAt), failedAt: r.FailedAt, deadline: r.DeadlineAt,
		forward: make([]leg, len(p.Steps)), undo: make([]leg, len(p.Steps)),
	}
	if loaded.deadline.IsZero() {
		loaded.deadline = deadlineOf(p, loaded.claimed)
	}
	for _, e := range r.Entries {
		s := p.Find(e.Step)
		if s == nil || e.Undo && s.Undo == nil {
			return nil, fmt.Errorf("%w: an entry for %q, which is no step", journal.ErrCorrupt, e.Step)
		}
		l := loaded.leg(task{s, e.Undo})
		*l = toLeg(e, trusted)
		l.keepInPast(r.Now)
		if s.IsSleep() {
			l.loadSleep(s, e)
		}
	}
	if !trusted {
		loaded.doubt()
	}
	for i := range p.Steps {
		loaded.forward[i].unheard, loaded.undo[i].unheard = loaded.forward[i].maybe, loaded.undo[i].maybe
	}
	return loaded, nil
}

// toLeg returns the leg of an entry. trusted is as in load.
func toLeg(e journal.Entry, trusted bool) leg {
	l := leg{
		state: callEnded, knowledge: knowledgeKnown, maybe: e.Pending && e.Outcome == retry.Unknown,
		outcome: e.Outcome, result: e.Result, attempts: e.Attempts, retryAt: e.RetryAt, at: e.At, last: e,
		firstSent: e.FirstSent,
	}
	if e.Pending && e.Outcome == retry.NotSent && e.FirstSent.IsZero() {
		l.unsent = e.At
	}
	switch {
	case e.Pending && e.Code == wire.KeyExpired:
		l.state = callGivenUp
	case e.Pending:
		l.state = callIdle
	}
	if trusted && e.Attempts > 0 {
		l.knowledge = knowledgeAttempted
	}
	return l
}

// deadlineOf returns the deadline of a saga whose first engine got it at that time. It is for a
// saga without a deadline in the journal.
func deadlineOf(p *graph.Plan, claimed time.Time) time.Time {
	switch {
	case !slices.ContainsFunc(p.Steps, (*graph.Step).CanFail): // it can only go forward
		return claimed.Add(p.UndoBudget)
	case p.Timeout > 0:
		return claimed.Add(p.Timeout)
	}
	return time.Time{}
}

// renew gives the saga the undo budget from now on.
func (p *progress) renew(now time.Time) { p.deadline, p.renewed = now.Add(p.plan.UndoBudget), true }

// doubt marks the calls that an earlier owner may have sent without writing them.
func (p *progress) doubt() {
	for i := range p.plan.Steps {
		// An owner writes the outcome of a step before it begins the next steps, and what is opened before it begins
		// that.
		if f, s := &p.forward[i], p.plan.Steps[i]; !f.isEnded() && !s.MakesNoCall() {
			f.maybe = p.status == journal.Running && !s.Opens() && p.isEnabled(s) || f.isKnown()
		}
		// The failure is written before an undo is sent, with an entry for each call that may
		// have to be undone.
		if u, s := &p.undo[i], p.plan.Steps[i]; !u.isEnded() && s.Undo != nil && !s.IsEach {
			f := &p.forward[i]
			u.maybe = p.status == journal.Compensating && f.isKnown() && !f.isHarmless()
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// A task is a call to make.
type task struct {
	step *graph.Step
	undo bool
}

func (p *progress) leg(t task) *leg {
	if t.undo {
		return &p.undo[t.step.Index]
	}
	return &p.forward[t.step.Index]
}

// calls returns the notes of the calls that the task's function makes; nil if the task is not a
// function. All attempts by this owner share the notes. A call of an earlier attempt stays done
// if a later attempt makes another call.
func (p *progress) calls(t task) *retry.Calls {
	a, l := t.step.Address, p.leg(t)
	if t.undo {
		a = *t.step.Undo
	}
	if l.calls == nil && a.Shape == graph.Function {
		l.calls = new(retry.Calls)
	}
	return l.calls
}

// begin records a call that is about to be sent, with that First-Sent. It is given up at due.
func (p *progress) begin(t task, firstSent, due time.Time) {
	p.leg(t).begin(firstSent, due)
	p.running++
}

// drop records that a call was not begun, since it waited for a call of an earlier execution. The
// earlier call may have had its effect.
func (p *progress) drop(t task) {
	p.leg(t).drop()
	p.running--
}

// end records the outcome of a call whose attempt had that First-Sent. A further attempt, if any, comes after wait.
func (p *progress) end(t task, v finding, firstSent, now time.Time, wait time.Duration) {
	l := p.leg(t)
	if l.firstSent.IsZero() && (v.outcome != retry.NotSent || l.calls.Outcome() != retry.NotSent) {
		l.firstSent = firstSent
	}
	p.running--
	if v.outcome == retry.NotSent && l.maybe {
		v.outcome = retry.Unknown // this attempt was not sent, an earlier one may have been
	}
	l.outcome, l.result = v.outcome, v.result
	l.maybe = v.outcome == retry.Unknown
	l.at, l.retryAt = now, time.Time{}
	switch {
	case p.isFinalAfter(t, v):
		l.end(callEnded)
	case v.lost || v.stop:
		l.end(callGivenUp)
	default:
		l.end(callIdle)
	}
	if !l.isEnded() {
		l.retryAt = now.Add(wait)
		if v.waits { // it takes as long as the other saga takes
			l.attempts--
		}
	}
	l.last.Detail, l.last.Forced, l.last.Nothing = v.detail, "", v.nothing
	l.last.Skipped = t.step.Optional && !t.undo && p.status == journal.Running && l.isHarmless()
	v.answer.into(&l.last)
}

// isFinalAfter reports whether the task is not to be tried again after v.
func (p *progress) isFinalAfter(t task, v finding) bool {
	switch v.outcome {
	case retry.Completed:
		return true
	case retry.Unknown:
		// The callee itself does not know, and never will. A step with an undo is undone, without
		// an output. Any other step is sent again until its time is up.
		return v.deadEnd && (t.undo || t.step.Undo != nil || v.stop && t.step.LeavesNothing())
	default:
		// While compensating, a call without an effect is not tried again.
		return !v.again || p.status == journal.Compensating && !t.undo
	}
}

// write returns the entry for a leg that is about to be written.
func (p *progress) write(t task) journal.Entry {
	p.leg(t).write()
	return p.entry(t)
}

// entry returns the entry for a leg as it stands.
func (p *progress) entry(t task) journal.Entry {
	l := p.leg(t)
	e := l.last
	e.Step, e.Undo = t.step.Name, t.undo
	e.Outcome, e.Pending, e.Attempts = l.outcome, !l.isEnded(), l.attempts
	e.RetryAt, e.At, e.Result = l.retryAt, l.at, l.result
	if e.FirstSent = l.firstSent; l.isCompleted() {
		e.FirstSent = time.Time{} // it is not sent again
	}
	return e
}

// canTell reports whether entries can hold all of the owner's knowledge. They cannot hold a call
// that is given up with an unknown outcome. They cannot hold the calls that the attempts of a
// function made either.
func (p *progress) canTell() bool {
	for i := range p.plan.Steps {
		for _, l := range [...]*leg{&p.forward[i], &p.undo[i]} {
			if l.isEnded() {
				continue
			}
			if made := l.calls.Outcome(); l.state == callGivenUp || made == retry.Unknown || made == retry.Completed {
				return false
			}
		}
	}
	return true
}

// tell puts all of the owner's knowledge into the next write. This includes calls that an earlier
// owner may have sent, and attempts that were not worth a write.
func (p *progress) tell(now time.Time) {
	p.tellSleeps(now)
	for i := range p.plan.Steps {
		for _, l := range [...]*leg{&p.forward[i], &p.undo[i]} {
			if l.maybe && !l.isKnown() {
				l.outcome, l.at = retry.Unknown, now
				l.learn()
			}
			l.owe()
		}
	}
}

// isCommitted reports whether the saga is past the point where it could be
// undone.
func (p *progress) isCommitted() bool {
	if pivot := p.plan.Pivot; pivot != nil {
		return p.forward[pivot.Index].isCompleted()
	}
	for _, s := range p.plan.Steps {
		if s.CanFail() && !p.forward[s.Index].isPassed() {
			return false
		}
	}
	return true
}

// fail makes the saga go back. It returns the entries of the calls to resolve first: running
// calls, and calls that may have been sent.
func (p *progress) fail(now time.Time) []journal.Entry {
	p.status, p.failedAt = journal.Compensating, now
	p.renew(now)
	var entries []journal.Entry
	for _, s := range p.plan.Steps {
		l := &p.forward[s.Index]
		switch {
		case l.isEnded(), !l.isOpened() && !l.isRunning() && !l.maybe:
			continue
		case l.isRunning() || l.maybe:
			l.outcome, l.retryAt = retry.Unknown, time.Time{}
		default:
			l.cease() // the call had no effect, or was written and not begun
			if !l.isKnown() {
				l.outcome = retry.NotSent
			}
		}
		l.learn()
		l.at = now
		entries = append(entries, p.write(task{s, false}))
	}
	return entries
}

// facts returns the input and outputs that the nodes need. checkValues has checked the values of
// other processes before.
func (p *progress) facts(input []byte, nodes ...*graph.Node) (*graph.Facts, error) {
	f := &graph.Facts{Outputs: make([]any, len(p.plan.Steps))}
	if p.plan.HasSkips() {
		f.Skipped = make([]bool, len(p.plan.Steps))
		for i := range f.Skipped {
			f.Skipped[i] = p.isSkipped(i)
		}
	}
	for _, n := range nodes {
		if n.Input && f.Input == nil {
			var err error
			if f.Input, err = p.plan.Input.Decode(input); err != nil {
				return nil, err
			}
		}
		for _, i := range n.Needs {
			if err := p.decode(f, i); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// decode adds the output of step i to f, if there is one.
func (p *progress) decode(f *graph.Facts, i int) (err error) {
	l, s := &p.forward[i], p.plan.Steps[i]
	if f.Outputs[i] != nil || !l.isCompleted() || l.result == nil {
		return nil
	}
	if s.IsEach {
		return p.decodeItems(f, s)
	}
	if f.Outputs[i], err = s.Output.Decode(l.result); err != nil {
		return fmt.Errorf("output of %s: %w", s.Name, err)
	}
	return nil
}

// checkValues returns an error if this process cannot read every member of a stored value that it
// still needs in the saga's direction. Then no further call is made.
func (p *progress) checkValues(input []byte, now time.Time) error {
	fromInput, outputs := p.reads(now)
	if fromInput {
		if err := p.plan.Input.Check(input); err != nil {
			return fmt.Errorf("input: %w", err)
		}
	}
	for i, s := range p.plan.Steps {
		l := &p.forward[i]
		if !outputs[i] || !l.isCompleted() || l.result == nil || s.IsEach {
			continue
		}
		if err := s.Output.Check(l.result); err != nil {
			return fmt.Errorf("output of %s: %w", s.Name, err)
		}
	}
	return p.checkItems(input, now)
}

// reads returns the values that are still read in the saga's direction: whether the input is, and
// which steps' outputs. Forward these are all values that any step or the result reads. Backward
// these are the inputs of the calls that are still due, and the outputs for their undos. Steps
// that never began, were refused or are undone need no values.
func (p *progress) reads(now time.Time) (input bool, outputs []bool) {
	outputs = make([]bool, len(p.plan.Steps))
	for i, s := range p.plan.Steps {
		if p.status == journal.Running {
			input, outputs[i] = true, s.Needed
			continue
		}
		if at := p.standing(s, now); at == cleared || at == blocked {
			continue
		}
		input = input || s.Input.Input
		outputs[i] = true
		for _, b := range s.Data {
			outputs[b] = true
		}
	}
	return input, outputs
}
