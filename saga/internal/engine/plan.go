package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// A Plan is a saga's definition without its types. It is checked, and does not
// change any more.
type Plan struct {
	Name    string
	Version int
	Steps   []*Step
	pivot   *Step   // nil: none
	sleeps  []*Step // in the order of Steps
	eaches  []int   // the steps that are an Each; see each.go

	Timeout     time.Duration // 0: none
	UndoBudget  time.Duration
	MaxParallel int

	Record journal.PlanRecord
	Input  Form
	Result *Node // nil: none
}

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
	// Before and behind are set when the plan is checked. Before has the steps of Data and After,
	// each once.
	Before, behind []int // the steps directly before and after it
	// below are all steps that run after it, directly or not.
	below  []int
	Needed bool // a later step or the result reads its output

	IsPivot, Retriable, ReadOnly, Irreversible bool
	// Optional says that its refusal skips it. Conditional says that it can be skipped before it begins, and is set when
	// the plan is checked: it has a When, or needs the output of a step that can be skipped.
	Optional, Conditional bool
	When                  *Node // a bool: whether it runs; nil: always
	// IsEach says that the step has items, which are steps of their own: see each.go.
	IsEach     bool
	Split      func(computed any) []Item // what Input has computed, as items; nil: of a plan without functions
	MaxItems   int
	items      []int  // the steps of its items, in their order; nil: they are not known yet
	each       string // of an item: the name of its Each
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

// An Address is where a call goes, and what its key is derived from.
type Address struct {
	Service, Operation string
	Discriminators     []string
	Shape              string // "POST /path", function, or that of a sleep or await
}

// Function is the shape of a step or undo without an operation.
const Function = "function"

// canFail reports whether the step may end the saga by its failure.
func (s *Step) canFail() bool { return !s.Retriable && !s.pastReturn }

// leavesNothing reports whether compensation skips the step although its call completed.
func (s *Step) leavesNothing() bool { return s.ReadOnly || s.Irreversible || s.isSleep() }

// isForwardOnly reports whether the step has an effect that nothing undoes, and works in the end.
func (s *Step) isForwardOnly() bool { return s.Retriable && s.Undo == nil && !s.leavesNothing() }

// HasEffect reports whether the step may have an effect outside. A step that the plan does not have may.
func (p *Plan) HasEffect(name string) bool {
	s := p.find(name)
	return s == nil || !s.ReadOnly && !s.makesNoCall()
}

func (p *Plan) find(name string) *Step {
	for _, s := range p.Steps {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// ancestors returns, for every step, which steps run before it. Steps of a cycle are
// their own ancestors.
func (p *Plan) ancestors() [][]bool {
	all := make([][]bool, len(p.Steps))
	for i := range p.Steps {
		all[i] = make([]bool, len(p.Steps))
		next := slices.Clone(p.Steps[i].Before)
		for len(next) > 0 {
			b := next[0]
			next = next[1:]
			if !all[i][b] {
				all[i][b] = true
				next = append(next, p.Steps[b].Before...)
			}
		}
	}
	return all
}

// A Node is a Value without its type.
type Node struct {
	Draft *Draft // whose value it is
	Input bool   // it is made from the saga's input
	Needs []int  // indexes of the steps whose outputs it is made from
	Eval  func(*Facts) any
	// Missing reports whether there is no value if those steps are skipped. Nil means that each of Needs is needed.
	Missing func(skipped func(step int) bool) bool
}

// IsMissing reports whether the node has no value if those steps are skipped.
func (n *Node) IsMissing(skipped func(step int) bool) bool {
	if n.Missing != nil {
		return n.Missing(skipped)
	}
	return slices.ContainsFunc(n.Needs, skipped)
}

// Facts are the known input and outputs of a saga, as far as they are needed. They are decoded
// from the journal's bytes, in every process and each time anew. So every process computes the
// same values.
type Facts struct {
	Input   any
	Outputs []any // by index of the step; nil where there is none yet
	// Skipped says which steps were skipped, by index. Nil means that none can be.
	Skipped []bool
}

// A Form is how values of one type are read from a journal.
type Form struct {
	// Decode makes a value from bytes that this process wrote or has checked.
	Decode func([]byte) (any, error)
	// Check reports whether bytes of another process are a value of the type, without a member
	// that the type lacks. The other process may be of a build in which a field had another name.
	// The zero value of the renamed field would lead to a wrong input of a call.
	Check func([]byte) error
	// CheckExactly is Check for bytes of another version. They must also have every member that a value of the type is
	// encoded with: a member that they lack would be zero.
	CheckExactly func([]byte) error
}

// A PlanChanged is returned for a plan that differs from the journal's plan.
type PlanChanged struct {
	Plan    *Plan
	Problem error
}

func (p *PlanChanged) Error() string { return p.Problem.Error() }
func (p *PlanChanged) Unwrap() error { return p.Problem }

// planChangedError returns the difference between plan and the stored plan. It has the lines that differ.
// If the order differs, it also has all common lines in the journal's order. The place of a step
// is part of its identity.
func planChangedError(plan, stored journal.PlanRecord) error {
	now, added := partition(plan.Lines, stored.Lines)
	old, removed := partition(stored.Lines, plan.Lines)
	var b strings.Builder
	for _, line := range removed {
		b.WriteString("\n\t- " + line)
	}
	for _, line := range added {
		b.WriteString("\n\t+ " + line)
	}
	if !slices.Equal(now, old) {
		b.WriteString("\n\tthe order of the steps is another one; the journal's is:")
		for i, line := range old {
			fmt.Fprintf(&b, "\n\t%d %s", i+1, line)
		}
	}
	return fmt.Errorf("%w; give it a new version:%s", ErrPlanChanged, b.String())
}

// partition returns which of lines are among others, and which are not.
func partition(lines, others []string) (shared, own []string) {
	for _, line := range lines {
		if slices.Contains(others, line) {
			shared = append(shared, line)
		} else {
			own = append(own, line)
		}
	}
	return shared, own
}
