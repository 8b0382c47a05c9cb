package saga

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fanonce/fanonce/childkey"
)

// finish checks the draft and completes its plan.
func (d *draft) finish() (*plan, error) {
	p := d.plan
	d.checkNames()
	d.link()
	if cycle := p.cycle(); cycle != nil {
		d.problem(&CycleError{cycle})
	}
	d.checkMarks()
	d.checkPivot()
	d.checkUndos()
	d.problems = append(d.problems, p.retentionProblems(defaultBackoff)...)
	if len(d.problems) > 0 {
		return nil, &PlanError{Name: p.name, Version: p.version, Problems: d.problems}
	}
	for i, above := range p.ancestors() {
		for b, runsBefore := range above {
			if runsBefore {
				p.steps[b].below = append(p.steps[b].below, i)
			}
		}
	}
	p.record = p.describe()
	return p, nil
}

func (d *draft) checkNames() {
	p := d.plan
	if err := childkey.CheckName(p.name); err != nil {
		d.problem(fmt.Errorf("name: %w", err))
	}
	d.positive("version", int64(p.version), p.version)
	switch n := len(p.steps); {
	case n == 0:
		d.problem(errors.New("there are no steps"))
	case n > MaxSteps:
		d.problem(fmt.Errorf("%d steps, at most %d", n, MaxSteps))
	}
	seen := make(map[string]bool)
	use := func(name string) {
		if seen[name] {
			d.problem(&DuplicateStepError{name})
		}
		seen[name] = true
	}
	for _, s := range p.steps {
		use(s.name)
		if s.undo != nil {
			use(s.undo.name())
		}
	}
}

// link works out the edges of the graph.
func (d *draft) link() {
	p := d.plan
	for _, s := range p.steps {
		s.before = slices.Concat(s.data, s.after)
		slices.Sort(s.before)
		s.before = slices.Compact(s.before)
		for _, b := range s.before {
			p.steps[b].behind = append(p.steps[b].behind, s.index)
		}
		for _, b := range s.data {
			p.steps[b].needed = true
		}
	}
}

// cycle returns the names of steps that wait for each other, nil if none do.
func (p *plan) cycle() []string {
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(p.steps))
	var path []int
	var visit func(i int) []string
	visit = func(i int) []string {
		path = append(path, i)
		defer func() { path = path[:len(path)-1] }()
		state[i] = open
		for _, b := range p.steps[i].before {
			if state[b] == open {
				var names []string
				for _, j := range path[slices.Index(path, b):] {
					names = append(names, p.steps[j].name)
				}
				return append(names, p.steps[b].name)
			}
			if state[b] == unseen {
				if found := visit(b); found != nil {
					return found
				}
			}
		}
		state[i] = done
		return nil
	}
	for i := range p.steps {
		if state[i] == unseen {
			if found := visit(i); found != nil {
				return found
			}
		}
	}
	return nil
}

func (d *draft) checkMarks() {
	for _, s := range d.plan.steps {
		for _, m := range []struct {
			wrong bool
			text  string
		}{
			{s.isPivot && s.undo != nil, "the pivot has an undo, which would never run"},
			{s.isPivot && (s.readOnly || s.irreversible || s.retriable), "the pivot is also ReadOnly, Irreversible or Retriable"},
			{s.readOnly && (s.undo != nil || s.irreversible), "a ReadOnly step has nothing to undo"},
			{s.irreversible && s.undo != nil, "an Irreversible step has an undo"},
		} {
			if m.wrong {
				d.problem(fmt.Errorf("step %s: %s", s.name, m.text))
			}
		}
	}
}

// bare reports whether the step says nothing of how a saga gets rid of it.
func (s *step) bare() bool {
	return s.undo == nil && !s.isPivot && !s.retriable && !s.readOnly && !s.irreversible
}

// checkPivot finds the pivot and checks who stands before, behind and beside it.
func (d *draft) checkPivot() {
	p := d.plan
	before := p.ancestors()
	for _, s := range p.steps {
		switch {
		case !s.isPivot:
		case p.pivot == nil:
			p.pivot = s
		default:
			d.problem(&PivotError{s.name, p.pivot.name, "there are two pivots"})
		}
	}
	if p.pivot == nil {
		p.inferPivot(before)
		return
	}
	for _, s := range p.steps {
		switch {
		case s.isPivot || before[p.pivot.index][s.index]:
		case !before[s.index][p.pivot.index]:
			d.problem(&PivotError{s.name, p.pivot.name, "it runs beside the pivot, and nobody could say whether to undo it"})
		case !s.retriable:
			d.problem(&PivotError{s.name, p.pivot.name, "it runs after the pivot and is not Retriable"})
		}
	}
}

// inferPivot makes the one step that says nothing of itself the pivot, if
// nothing else can fail after it.
func (p *plan) inferPivot(before [][]bool) {
	var only *step
	for _, s := range p.steps {
		if s.bare() {
			if only != nil {
				return
			}
			only = s
		}
	}
	if only == nil {
		return
	}
	for _, s := range p.steps {
		ahead, behind := before[only.index][s.index], before[s.index][only.index]
		if s != only && !ahead && (!behind || !s.retriable) {
			return
		}
	}
	only.isPivot = true
	p.pivot = only
}

// checkUndos finds the steps that would be left behind when another one fails.
func (d *draft) checkUndos() {
	p := d.plan
	before := p.ancestors()
	for _, s := range p.steps {
		forwardOnly := s.retriable && s.undo == nil && !s.leavesNothing()
		if !s.bare() && !forwardOnly {
			continue
		}
		for _, other := range p.steps {
			if other != s && other.canFail() && !before[s.index][other.index] {
				d.problem(&MissingUndoError{Step: s.name, Fallible: other.name})
				break
			}
		}
	}
}
