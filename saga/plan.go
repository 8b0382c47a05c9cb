package saga

import (
	"context"
	"slices"
	"time"
)

// A plan is a saga's definition without its types. It is checked, and does not
// change any more.
type plan struct {
	name    string
	version int
	steps   []*step
	pivot   *step // nil: none

	timeout     time.Duration // 0: none
	undoBudget  time.Duration
	maxParallel int
	edges       bool

	record PlanRecord
	input  form
	result *node // nil: none
}

// A step is one step of a plan.
type step struct {
	index   int
	name    string // "service.operation[discriminators]"
	address address
	undo    *address // nil: none
	input   *node

	data  []int // steps whose outputs the input is made from
	after []int // further steps that it waits for
	// Of both, without repetition, by the time the plan is checked.
	before, behind []int // what runs directly before it, and after it
	// below are all steps that run after it, directly or not.
	below  []int
	needed bool // somebody reads its output

	isPivot, retriable, readOnly, irreversible bool

	tryTimeout time.Duration
	timeout    time.Duration // 0: none of its own
	retention  time.Duration // 0: the callee judges
	policy     RetryPolicy

	call     func(ctx context.Context, c *call) ([]byte, error)
	undoCall func(ctx context.Context, c *call) error
	output   form
	zero     []byte // the zero output
}

// An address is where a call goes, and what its key is derived from.
type address struct {
	service, operation string
	discriminators     []string
	shape              string // "POST /path", or function
}

// function is the shape of what is no operation.
const function = "function"

// canFail reports whether the step may be what ends a saga.
func (s *step) canFail() bool { return !s.retriable }

// leavesNothing reports whether compensation passes the step over although its
// call completed.
func (s *step) leavesNothing() bool { return s.readOnly || s.irreversible }

func (p *plan) find(name string) *step {
	for _, s := range p.steps {
		if s.name == name {
			return s
		}
	}
	return nil
}

// ancestors returns, for every step, which steps run before it. Steps of a cycle are
// their own ancestors.
func (p *plan) ancestors() [][]bool {
	all := make([][]bool, len(p.steps))
	for i := range p.steps {
		all[i] = make([]bool, len(p.steps))
		next := slices.Clone(p.steps[i].before)
		for len(next) > 0 {
			b := next[0]
			next = next[1:]
			if !all[i][b] {
				all[i][b] = true
				next = append(next, p.steps[b].before...)
			}
		}
	}
	return all
}
