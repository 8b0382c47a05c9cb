package graph

import (
	"context"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// A Step is one step of a plan.
type Step struct {
	Index   int
	Name    string // "service.operation[discriminators]"
	Address Address
	Undo    *Address // nil: none
	// InheritsUndo: the operation names the Undo, and not the step itself.
	InheritsUndo bool
	Input        *Node

	Data  []int // the steps whose outputs the input needs
	After []int // further steps that it waits for
	// Before and Behind are set when the plan is checked. Before has the steps of Data and After,
	// each once.
	Before, Behind []int // the steps directly before and after it
	// Below are all steps that run after it, directly or not.
	Below  []int
	Needed bool // a later step or the result reads its output

	IsPivot, Retriable, ReadOnly, Irreversible bool
	// Optional says that its refusal skips it. Conditional says that it can be skipped before it begins, and is set when
	// the plan is checked: it has a When, or needs the output of a step that can be skipped.
	Optional, Conditional bool
	When                  *Node // a bool: whether it runs; nil: always
	// IsEach says that the step has items, which are steps of their own: see items.go.
	IsEach     bool
	Split      func(computed any) []Item // what Input has computed, as items; nil: of a plan without functions
	MaxItems   int
	Items      []int  // the steps of its items, in their order; nil: they are not known yet
	Each       string // of an item: the name of its Each
	pastReturn bool   // of a sleep; see markSleeps

	AttemptTimeout time.Duration
	Timeout        time.Duration // 0: none of its own
	Wait           time.Duration // of an await: how long; 0: until it is sent
	Retention      time.Duration // 0: the callee judges
	Policy         Policy

	Call     func(ctx context.Context, c *Call) ([]byte, error)
	UndoCall func(ctx context.Context, c *Call) error
	// Sends returns what a call with that input is sent with, for comparison; nil: the step makes no call.
	Sends  func(input any) ([]byte, error)
	Output Form
	Of     reflect.Type // of an await: of the value
	Zero   []byte       // the zero output
}

// CanFail reports whether the step may end the saga by its failure.
func (s *Step) CanFail() bool { return !s.Retriable && !s.pastReturn }

// LeavesNothing reports whether compensation skips the step although its call completed.
func (s *Step) LeavesNothing() bool { return s.ReadOnly || s.Irreversible || s.IsSleep() }

// isForwardOnly reports whether the step has an effect that nothing undoes, and works in the end.
func (s *Step) isForwardOnly() bool { return s.Retriable && s.Undo == nil && !s.LeavesNothing() }

// Opens reports whether the journal has the step before its call begins: the pivot, so that nobody undoes what came
// before it, and a step that could be skipped, so that no later owner skips it.
func (s *Step) Opens() bool { return s.IsPivot || s.Conditional }

// A Call is one attempt of a step's call or undo. ctx carries the parent key.
type Call struct {
	Client *sdk.Client
	Parent childkey.Key // of the saga's calls
	Step   *Step
	Input  any
	Output []byte // of the call to undo; nil: none
	Ran    bool   // the callee said that the call to undo took effect

	Calls *retry.Calls // that functions made in this attempt and in earlier ones of the owner

	Nothing bool // set by an undo that found nothing to undo
	Spoke   bool // set by a function that returned an error
}

func (c *Call) Derive(a Address) (childkey.Key, error) {
	return childkey.Derive(c.Parent, a.Service, a.Operation, a.Discriminators...)
}

// Guarded calls fn and returns its panic as an [*sdk.PanicError]. It does not return if fn
// ends the goroutine.
func Guarded(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &sdk.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return fn()
}
