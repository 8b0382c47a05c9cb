package saga

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/saga/internal/graph"
)

// The sentinels of a [PlanError], which matches those of all its problems.
var (
	// ErrPlan: something is wrong with a definition. Every [PlanError] matches it.
	ErrPlan = errors.New("saga: bad plan")
	// ErrDuplicateStep: two steps, or a step and an undo, have one name. Their calls would
	// have one key. Give the operations discriminators.
	ErrDuplicateStep = graph.ErrDuplicateStep
	// ErrCycle: steps wait for each other.
	ErrCycle = graph.ErrCycle
	// ErrMissingUndo: a step could not be undone when another one fails. Give it an Undo,
	// or say that it is ReadOnly, Irreversible, the Pivot, or Retriable behind everything
	// that can fail.
	ErrMissingUndo = graph.ErrMissingUndo
	// ErrPivot: a step is on the wrong side of the pivot, or there are two pivots.
	ErrPivot = graph.ErrPivot
	// ErrRetention: a callee forgets keys while the saga can still send them. The call
	// could then take effect twice.
	ErrRetention = graph.ErrRetention
	// ErrValue: a [Value] that is of no saga or of another one.
	ErrValue = errors.New("saga: foreign value")
	// ErrType is [contract.ErrType]: an input, output or result that JSON cannot carry there and back.
	ErrType = contract.ErrType
	// ErrPlanChanged: the journal has another plan under the definition's name and
	// version. Give the definition a new version: sagas of both run side by side.
	ErrPlanChanged = graph.ErrPlanChanged
)

// A PlanError lists everything that is wrong with a definition. [Define] returns it, and
// [Open] for a definition that does not fit the journal or the engine's Backoff.
type PlanError struct {
	Name    string
	Version int
	// Problems are what is wrong. The text of each names its steps. Those that have a
	// sentinel match it.
	Problems []error
}

// Error has one line per problem.
func (e *PlanError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "saga: plan %s version %d:", cmp.Or(e.Name, `""`), e.Version)
	for _, p := range e.Problems {
		b.WriteString("\n\t" + errtext.Of(p))
	}
	return b.String()
}

// Unwrap returns the problems.
func (e *PlanError) Unwrap() []error { return e.Problems }

// Is matches [ErrPlan].
func (e *PlanError) Is(target error) bool { return target == ErrPlan }
