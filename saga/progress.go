package saga

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A StepStatus says how far a step of a saga has come.
type StepStatus uint8

const (
	// StepWaiting means that the step waits to begin: for other steps, or for an engine.
	StepWaiting StepStatus = iota + 1
	// StepRunning means that the step's call can be running, or is to be tried again, or that a [Sleep] goes on.
	StepRunning
	// StepCompleted means that the step took effect. In a saga that is stuck on its way back it still has to be undone.
	StepCompleted
	// StepSkipped means that the saga goes on without the step ([StepRef.When], [StepRef.Optional]).
	StepSkipped
	// StepFailed means that the step had no effect, and is not tried again by itself.
	StepFailed
	// StepUnknown means that the step may have taken effect, and that no call of it is being tried.
	StepUnknown
	// StepUndoing means that the step took effect, or may have, and is being undone, or will be.
	StepUndoing
	// StepUndone means that the step was undone.
	StepUndone
	// StepUndoFailed means that the undo of the step was tried, and is not tried again by itself.
	StepUndoFailed
	// StepNeverRan means that the step never began, and never will: the saga went back, or is over.
	StepNeverRan
)

var stepStatusNames = map[StepStatus]string{
	StepWaiting: "waiting", StepRunning: "running", StepCompleted: "completed", StepSkipped: "skipped", StepFailed: "failed",
	StepUnknown: "unknown", StepUndoing: "undoing", StepUndone: "undone", StepUndoFailed: "undo failed", StepNeverRan: "never ran",
}

// String returns the status's name in lower case.
func (s StepStatus) String() string {
	if name, ok := stepStatusNames[s]; ok {
		return name
	}
	return "none"
}

// A StepState says how far a step of one saga has come.
type StepState struct {
	Name   string // of the step, as in [StepInfo]
	Status StepStatus
	// Attempts is how many attempts have ended: of the step's call, or of its undo if that has begun.
	Attempts int
	// At is when the journal was last told of the step; zero: it was not.
	At time.Time
}

// errNoEntries refuses a record that would show each step as waiting.
var errNoEntries = errors.New("saga: the record is of a list, without entries: read the saga with Lookup")

// Progress returns how far each step of the saga in r has come, in the order of their declaration. Read r with
// [Operator.Lookup], or with Show of a [journal.Reader]. Progress does no I/O, and the journal keeps nothing for it. In the
// place of an [Each] are its items, once they are known; Show knows those that it has anything of.
//
// An engine writes an outcome when it acts on it. So the record of a running saga can lack the outcomes of calls that
// run side by side.
//
// The error wraps [ErrNoDefinition] if the saga is of another definition, version or plan. It is r.Corrupt if the record
// is damaged, which matches [ErrCorrupt].
func (d *Definition[In, Out]) Progress(r journal.Record) ([]StepState, error) {
	plan := d.enginePlan()
	if err := checkRecord(plan, r); err != nil {
		return nil, err
	}
	p, err := newProgress(plan, r)
	if err != nil {
		return nil, err
	}
	states := make([]StepState, 0, len(p.plan.Steps))
	for _, s := range p.plan.Steps[:len(plan.Steps)] {
		if len(s.Items) == 0 {
			states = append(states, p.stateOf(s))
		}
		for _, i := range s.Items {
			states = append(states, p.stateOf(p.plan.Steps[i]))
		}
	}
	return states, nil
}

func (p progress) stateOf(s *graph.Step) StepState {
	last := p.forward[s.Name]
	if undo, begun := p.undo[s.Name]; begun {
		last = undo
	}
	return StepState{Name: s.Name, Status: p.statusOf(s), Attempts: last.Attempts, At: last.At}
}

// ReadOutput returns the output of the step in the saga of r. Read r with [Operator.Lookup]. If the step is not
// [StepCompleted], done is false and out is zero; [Definition.Progress] tells why. To have the step at hand, keep it in
// a variable while its saga is defined. ReadOutput does no I/O.
//
// The errors are those of [Definition.Progress], and [ErrNoResult] if the step completed and its output is not in r, as
// in a record of a [journal.Reader]. An output with a member that Out lacks is an [ErrNewer].
func (s *StepRef[In, Out]) ReadOutput(r journal.Record) (out Out, done bool, err error) {
	if err := checkRecord(s.draft.Plan, r); err != nil {
		return out, false, err
	}
	p, err := newProgress(s.draft.Plan, r)
	if err != nil || p.statusOf(s.step) != StepCompleted {
		return out, false, err
	}
	out, err = readOutput[Out](p, s.step)
	return out, true, err
}

// readOutput returns the output of a step that completed.
func readOutput[Out any](p progress, s *graph.Step) (out Out, err error) {
	data := p.forward[s.Name].Result
	if data == nil {
		return out, fmt.Errorf("%w: step %s of saga %s", ErrNoResult, s.Name, p.record.ID)
	}
	if out, err = decodeStrictly[Out](data); err != nil {
		return out, fmt.Errorf("output of %s: %w", s.Name, err)
	}
	return out, nil
}

// checkRecord refuses a record that plan cannot read.
func checkRecord(plan *graph.Plan, r journal.Record) error {
	switch {
	case plan == nil || plan.Record.Hash == journal.PlanHash{}:
		return errNotDefined
	case r.Plan != plan.Record.Hash:
		return fmt.Errorf("%w: the saga is of %s version %d, plan %s; this is %s version %d, plan %s",
			ErrNoDefinition, r.Name, r.Version, r.Plan, plan.Name, plan.Version, plan.Record.Hash)
	case r.Corrupt != nil:
		return r.Corrupt
	case r.Key.IsZero():
		return errNoEntries
	}
	return nil
}

// A progress holds what a record says of the steps of its plan.
type progress struct {
	plan          *graph.Plan
	record        journal.Record
	forward, undo map[string]journal.Entry // by step
}

func newProgress(plan *graph.Plan, r journal.Record) (progress, error) {
	plan, err := plan.WithShownItems(r.Entries)
	if err != nil {
		return progress{}, err
	}
	p := progress{plan, r, make(map[string]journal.Entry), make(map[string]journal.Entry)}
	for _, e := range r.Entries {
		if e.Undo {
			p.undo[e.Step] = e
		} else {
			p.forward[e.Step] = e
		}
	}
	return p, nil
}

func (p progress) statusOf(s *graph.Step) StepStatus {
	if undo, begun := p.undo[s.Name]; begun {
		return p.undoStatus(undo)
	}
	e, written := p.forward[s.Name]
	switch {
	case !written:
		return p.unwrittenStatus(s)
	case e.Skipped:
		return StepSkipped
	case e.Pending:
		return p.pendingStatus(e)
	case e.Outcome != retry.Completed && e.Outcome != retry.Unknown:
		return StepFailed
	case p.record.Status == journal.Compensating && s.Undo != nil && !s.IsEach:
		return StepUndoing
	case e.Outcome == retry.Unknown:
		return StepUnknown
	}
	return StepCompleted
}

func (p progress) undoStatus(e journal.Entry) StepStatus {
	switch {
	case !e.Pending && e.Outcome == retry.Completed:
		return StepUndone
	case e.Pending && p.record.Status == journal.Compensating:
		return StepUndoing
	}
	return StepUndoFailed
}

// pendingStatus is the status of a step that was written before its call ended. Its next attempt may have been sent.
func (p progress) pendingStatus(e journal.Entry) StepStatus {
	switch {
	case p.record.Status == journal.Running:
		return StepRunning
	case e.Outcome == retry.Unknown || !p.record.Clean:
		return StepUnknown
	}
	return StepFailed
}

// unwrittenStatus is the status of a step without an entry. An owner may have begun it if the steps before it
// are done, unless it is one that is written first. When a saga goes back all that was begun is written.
func (p progress) unwrittenStatus(s *graph.Step) StepStatus {
	r := &p.record
	begun := !r.Clean && !r.FirstClaimedAt.IsZero() && !s.IsPivot && !s.Conditional && !s.IsEach && p.isEnabled(s)
	switch {
	case !r.FailedAt.IsZero() || r.Status.Final() && !begun:
		return StepNeverRan
	case !begun:
		return StepWaiting
	case r.Status == journal.Running:
		return StepRunning
	}
	return StepUnknown
}

// isEnabled reports whether the steps before s are done.
func (p progress) isEnabled(s *graph.Step) bool {
	for _, b := range s.Before {
		e, written := p.forward[p.plan.Steps[b].Name]
		if !written || e.Pending || e.Outcome != retry.Completed && !e.Skipped {
			return false
		}
	}
	return true
}
