package graph

import (
	"fmt"
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
	Pivot   *Step   // nil: none
	Sleeps  []*Step // in the order of Steps
	Eaches  []int   // the steps that are an Each; see items.go

	Timeout     time.Duration // 0: none
	UndoBudget  time.Duration
	MaxParallel int

	Record journal.PlanRecord
	Input  Form
	Result *Node // nil: none
}

// HasEffect reports whether the step may have an effect outside. A step that the plan does not have may.
func (p *Plan) HasEffect(name string) bool {
	s := p.Find(name)
	return s == nil || !s.ReadOnly && !s.MakesNoCall()
}

func (p *Plan) Find(name string) *Step {
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

// A PlanChanged is returned for a plan that differs from the journal's plan.
type PlanChanged struct {
	Plan    *Plan
	Problem error
}

func (p *PlanChanged) Error() string { return p.Problem.Error() }
func (p *PlanChanged) Unwrap() error { return p.Problem }

// CompareRecords returns the difference between plan and the stored plan. It has the lines that differ.
// If the order differs, it also has all common lines in the journal's order. The place of a step
// is part of its identity.
func CompareRecords(plan, stored journal.PlanRecord) error {
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

// IsTyped reports whether the plan is that of a definition: the one that a journal keeps has no types.
func (p *Plan) IsTyped() bool { return p.Input.CheckExactly != nil }

func (p *Plan) PivotName() string {
	if p.Pivot == nil {
		return ""
	}
	return p.Pivot.Name
}
