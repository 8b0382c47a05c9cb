package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// The reasons of a [MigrationProblem]. The front says what they mean.
const (
	MigrationDefinition = "definition"
	MigrationOver       = "over"
	MigrationGoesBack   = "goes-back"
	MigrationNoStep     = "no-step"
	MigrationCall       = "call"
	MigrationUndo       = "undo"
	MigrationMarks      = "marks"
	MigrationUnfinished = "unfinished"
	MigrationPivot      = "pivot"
	MigrationInput      = "input"
	MigrationOutput     = "output"
	MigrationRequest    = "request"
	MigrationSignal     = "signal"
	MigrationWouldFail  = "would-fail"
)

// A MigrationProblem is one reason why a saga cannot be moved to a version.
type MigrationProblem struct{ Reason, Step, Text string }

// A MigrationRefused has all reasons why a saga cannot be moved to a version.
type MigrationRefused struct {
	Record   journal.Record
	To       int
	Problems []MigrationProblem
}

func (m *MigrationRefused) Error() string { return "saga: it cannot be moved to that version" }

// errSamePlan says that a saga has the plan already that it is to be moved to.
var errSamePlan = errors.New("saga: it has that plan")

// CheckTarget returns an error unless the journal has the plan to: an engine stores it before sagas can have it.
func (o *Operator) CheckTarget(ctx context.Context, to *graph.Plan) error {
	stored, err := o.journal.ReadPlan(ctx, to.Name, to.Version)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return fmt.Errorf("%w: no engine of this journal has opened with %s version %d yet", ErrNoDefinition, to.Name, to.Version)
	case err == nil && stored.Hash != to.Record.Hash:
		return graph.CompareRecords(to.Record, stored)
	}
	return err
}

// Migrate moves a saga to the plan to, which the journal has. moved is false if it has that plan already.
func (o *Operator) Migrate(ctx context.Context, id journal.ID, to *graph.Plan, by journal.Audit) (r journal.Record, moved bool, err error) {
	by.Verb = journal.VerbMigrate
	r, err = o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		if err := o.checkMigration(ctx, r, to); err != nil {
			return journal.Change{}, err
		}
		versions := fmt.Sprintf("%d to %d", r.Version, to.Version)
		return journal.Change{Plan: to.Record.Hash, Version: to.Version, By: journal.Audit{Step: versions}}, nil
	})
	if errors.Is(err, errSamePlan) {
		return r, false, nil
	}
	return r, err == nil, err
}

// CheckMigrate returns what Migrate would, and changes nothing.
func (o *Operator) CheckMigrate(ctx context.Context, id journal.ID, to *graph.Plan) (r journal.Record, moves bool, err error) {
	if r, err = o.journal.Read(ctx, id); err != nil {
		return r, false, err
	}
	err = o.checkMigration(ctx, r, to)
	if errors.Is(err, errSamePlan) {
		return r, false, nil
	}
	return r, err == nil, err
}

// checkMigration returns errSamePlan, a *MigrationRefused, or why the saga or its plan cannot be read; nil if the saga can
// be moved.
func (o *Operator) checkMigration(ctx context.Context, r journal.Record, to *graph.Plan) error {
	m := migration{r: r, to: to}
	switch {
	case r.Name != to.Name:
		m.note(MigrationDefinition, "", "it is a saga of %s, and not of %s", r.Name, to.Name)
	case r.Plan == to.Record.Hash:
		return errSamePlan
	case r.Status.Final():
		m.note(MigrationOver, "", "it is %s", r.Status)
	case r.Status == journal.Compensating || !r.FailedAt.IsZero():
		m.note(MigrationGoesBack, "", "it goes back, by the plan that it went forward by")
	default:
		from, err := o.planOf(ctx, r)
		if err != nil {
			return err
		}
		if err := m.check(from); err != nil {
			return err
		}
		if err := m.checkSignals(ctx, o.journal, from); err != nil {
			return err
		}
	}
	if len(m.problems) == 0 {
		return nil
	}
	return &MigrationRefused{r, to.Version, m.problems}
}

// A migration is a saga that is to be moved to another plan, and what is in the way so far.
type migration struct {
	r        journal.Record
	to       *graph.Plan
	problems []MigrationProblem
}

func (m *migration) note(reason, step, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if step != "" {
		text = "step " + step + ": " + text
	}
	m.problems = append(m.problems, MigrationProblem{reason, step, text})
}

// check compares the plan that the saga has with the other one, for all that has begun. The error says that the saga cannot
// be read.
func (m *migration) check(from *graph.Plan) error {
	trusted := m.r.Clean || m.r.Fence == 0
	was, err := load(from, unstuck(m.r), trusted)
	if err != nil {
		return err
	}
	if was.cancel && !was.isCommitted() {
		m.note(MigrationGoesBack, "", "it is cancelled, and goes back")
	}
	if now, then := from.PivotName(), m.to.PivotName(); now != then {
		m.note(MigrationPivot, then, "the pivot is %s there, and %s here", orNone(then), orNone(now))
	}
	to, err := m.to.WithItems(m.r.Entries)
	if err != nil {
		m.note(MigrationOutput, "", "%s", errtext.Inner(err))
		return nil
	}
	m.to = to
	for _, s := range was.plan.Steps {
		if l := &was.forward[s.Index]; l.isKnown() || l.maybe {
			m.checkStep(was, s)
		}
	}
	m.checkValues(was)
	if len(m.problems) > 0 {
		return nil
	}
	return m.foresee(trusted)
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// checkStep compares a step whose call has begun, or may have.
func (m *migration) checkStep(was *progress, s *graph.Step) {
	there := m.to.Find(s.Name)
	if there == nil {
		m.note(MigrationNoStep, s.Name, "it has begun, and version %d does not have it", m.to.Version)
		return
	}
	if now, then := s.Address.Shown(was.plan, m.to), there.Address.Shown(was.plan, m.to); now != then {
		m.note(MigrationCall, s.Name, "it is %q there, and %q here", then, now)
	}
	if now, then := s.Undo.Shown(was.plan, m.to), there.Undo.Shown(was.plan, m.to); now != then {
		m.note(MigrationUndo, s.Name, "its undo is %q there, and %q here", then, now)
	}
	marks := there.Marks()
	for i, here := range s.Marks() {
		switch {
		case *here.Is && !*marks[i].Is:
			m.note(MigrationMarks, s.Name, "it is not %s there, and is here", here.Text)
		case !*here.Is && *marks[i].Is:
			m.note(MigrationMarks, s.Name, "it is %s there, and is not here", here.Text)
		}
	}
	for _, b := range there.Before {
		if before := m.to.Steps[b].Name; !was.hasPassed(before) {
			m.note(MigrationUnfinished, s.Name, "it has begun, and would wait for %s, which has not ended", before)
		}
	}
}

// hasPassed reports whether the saga has the step, and its end lets the next steps begin.
func (p *progress) hasPassed(name string) bool {
	s := p.plan.Find(name)
	return s != nil && p.forward[s.Index].isPassed()
}

// checkValues checks that what is stored is just what the other version would have stored. Then no value is lost, and none
// is made up.
func (m *migration) checkValues(was *progress) {
	if !m.to.IsTyped() {
		return
	}
	if err := m.to.Input.CheckExactly(m.r.Input); err != nil {
		m.note(MigrationInput, "", "the input: %s", errtext.Inner(err))
	}
	for _, s := range was.plan.Steps {
		l, there := &was.forward[s.Index], m.to.Find(s.Name)
		if there == nil || !l.isCompleted() || s.IsEach { // checkItems compares the items of that
			continue
		}
		if l.result == nil {
			if there.Needed && !s.Needed {
				m.note(MigrationOutput, s.Name, "its output is needed there, and is not stored")
			}
			continue
		}
		if err := there.Output.CheckExactly(l.result); err != nil {
			m.note(MigrationOutput, s.Name, "its output: %s", errtext.Inner(err))
		}
	}
	if len(m.problems) > 0 {
		return
	}
	then, err := load(m.to, unstuck(m.r), true)
	if err != nil {
		return // which foresee finds
	}
	if err := then.checkItems(m.r.Input, m.r.Now); err != nil {
		m.note(MigrationRequest, "", "%s", errtext.Inner(err))
	} else if was.plan.IsTyped() {
		m.checkRequests(was, then)
	}
}

// checkRequests compares the inputs of the calls that are repeated or undone: a key stands for one input.
func (m *migration) checkRequests(was, then *progress) {
	for _, s := range was.plan.Steps {
		l := &was.forward[s.Index]
		if s.MakesNoCall() || !l.isKnown() && !l.maybe || l.isHarmless() || l.isEnded() && s.Undo == nil {
			continue
		}
		here, err := was.request(m.r.Input, s)
		if err != nil {
			continue // nothing was sent with it either
		}
		there, err := then.request(m.r.Input, m.to.Find(s.Name))
		switch {
		case err != nil:
			m.note(MigrationRequest, s.Name, "its input: %s", errtext.Inner(err))
		case !bytes.Equal(here, there):
			m.note(MigrationRequest, s.Name, "it has begun with another input than it has there")
		}
	}
}

// checkSignals checks that the other version awaits what the saga was sent, with a value that it can read.
func (m *migration) checkSignals(ctx context.Context, j journal.Journal, from *graph.Plan) error {
	if !from.HasAwaits() {
		return nil
	}
	sent, err := j.Signals(ctx, []journal.ID{m.r.ID})
	if err != nil {
		return err
	}
	for _, signal := range sent {
		there := m.to.Find(signal.Name)
		switch {
		case signal.Corrupt != nil:
			return signal.Corrupt
		case there == nil || !there.IsAwait():
			m.note(MigrationSignal, signal.Name, "it was sent, and version %d does not await it", m.to.Version)
		case signal.Value != nil && m.to.IsTyped():
			if err := there.Output.CheckExactly(signal.Value); err != nil {
				m.note(MigrationSignal, signal.Name, "the value that was sent: %s", errtext.Inner(err))
			}
		}
	}
	return nil
}

// request returns what the call of a step is sent with.
func (p *progress) request(input []byte, s *graph.Step) (sent []byte, err error) {
	known, err := p.facts(input, s.Input)
	if err != nil {
		return nil, err
	}
	err = graph.Guarded(func() (err error) {
		sent, err = s.Sends(s.Input.Eval(known))
		return err
	})
	return sent, err
}

// foresee finds out whether the saga would fail at once under the other plan.
func (m *migration) foresee(trusted bool) error {
	r := unstuck(m.r)
	r.ResumedAt = r.Now
	if r.FirstClaimedAt.IsZero() { // its times are still to begin
		r.FirstClaimedAt = r.Now
	}
	then, err := load(m.to, r, trusted)
	if err != nil {
		return err
	}
	if m.r.Status == journal.Stuck || !m.to.IsTyped() { // it fails already; and no times are known
		return nil
	}
	d := then.decideForward(r.Now)
	failed := d.cause
	if failed == nil {
		failed = d.stuckOn
	}
	if failed != nil {
		m.note(MigrationWouldFail, failed.Step, "it would fail at once, for the reason %q", failed.Reason)
	}
	return nil
}
