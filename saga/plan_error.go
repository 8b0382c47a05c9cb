package saga

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The sentinels of what [Define] refuses. A [PlanError] matches those of all
// its problems.
var (
	// ErrPlan: a definition is wrong; a [PlanError] lists how.
	ErrPlan = errors.New("saga: bad plan")
	// ErrDuplicateStep: two steps, or a step and an undo, have one name, and so
	// would have one key; a [DuplicateStepError].
	ErrDuplicateStep = errors.New("saga: duplicate step")
	// ErrCycle: steps wait for each other; a [CycleError].
	ErrCycle = errors.New("saga: steps wait for each other")
	// ErrMissingUndo: a [MissingUndoError].
	ErrMissingUndo = errors.New("saga: missing undo")
	// ErrPivot: a [PivotError].
	ErrPivot = errors.New("saga: pivot")
	// ErrRetention: a [RetentionError].
	ErrRetention = errors.New("saga: retention too short")
	// ErrValue: a [Value] that is of no saga or of another one.
	ErrValue = errors.New("saga: foreign value")
	// ErrType: an input, output or result that JSON cannot carry there and back.
	ErrType = errors.New("saga: type cannot be stored")
)

// A PlanError lists everything that is wrong with a definition.
type PlanError struct {
	Name     string
	Version  int
	Problems []error
}

// Error has one line per problem.
func (e *PlanError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "saga: plan %s version %d:", e.Name, e.Version)
	for _, p := range e.Problems {
		b.WriteString("\n\t" + strings.ReplaceAll(p.Error(), "saga: ", ""))
	}
	return b.String()
}

// Unwrap returns the problems.
func (e *PlanError) Unwrap() []error { return e.Problems }

// Is matches [ErrPlan].
func (e *PlanError) Is(target error) bool { return target == ErrPlan }

// A DuplicateStepError names what two steps, or a step and an undo, share.
type DuplicateStepError struct{ Name string }

// Error names it.
func (e *DuplicateStepError) Error() string {
	return fmt.Sprintf("saga: %s is there twice; give the operations discriminators", e.Name)
}

// Is matches [ErrDuplicateStep].
func (e *DuplicateStepError) Is(target error) bool { return target == ErrDuplicateStep }

// A CycleError names steps that wait for each other, in order.
type CycleError struct{ Steps []string }

// Error names the steps.
func (e *CycleError) Error() string {
	return "saga: steps wait for each other: " + strings.Join(e.Steps, " after ")
}

// Is matches [ErrCycle].
func (e *CycleError) Is(target error) bool { return target == ErrCycle }

// A MissingUndoError names a step that could not be undone when another one
// fails. Give it an Undo, or say that it is ReadOnly, Irreversible, the Pivot,
// or Retriable behind everything that can fail.
type MissingUndoError struct {
	Step     string
	Fallible string // a step that can fail when Step is done already
}

// Error names the steps.
func (e *MissingUndoError) Error() string {
	return fmt.Sprintf("saga: step %s has no undo, and %s can fail after it", e.Step, e.Fallible)
}

// Is matches [ErrMissingUndo].
func (e *MissingUndoError) Is(target error) bool { return target == ErrMissingUndo }

// A PivotError names a step that stands wrong to the pivot.
type PivotError struct {
	Step, Pivot string
	Why         string
}

// Error names the steps.
func (e *PivotError) Error() string {
	return fmt.Sprintf("saga: step %s, pivot %s: %s", e.Step, e.Pivot, e.Why)
}

// Is matches [ErrPivot].
func (e *PivotError) Is(target error) bool { return target == ErrPivot }

// A RetentionError names a step whose callee forgets keys while the saga can
// still send them: it could then take effect twice.
type RetentionError struct {
	Step      string
	Retention time.Duration // declared; 0: not declared, and CheckpointEdges needs it
	Need      time.Duration // for so long a key can be sent
}

// Error names the step.
func (e *RetentionError) Error() string {
	if e.Retention == 0 {
		return fmt.Sprintf("saga: step %s: CheckpointEdges needs a declared Retention of at least %v", e.Step, e.Need)
	}
	return fmt.Sprintf("saga: step %s: its callee remembers keys for %v, but can be sent for %v", e.Step, e.Retention, e.Need)
}

// Is matches [ErrRetention].
func (e *RetentionError) Is(target error) bool { return target == ErrRetention }
