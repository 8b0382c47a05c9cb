package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
)

// The limits and defaults of a plan.
const (
	MaxSteps          = 256
	MaxDuration       = 100 * 365 * 24 * time.Hour
	DefaultAttempts   = 10
	DefaultUndoBudget = 24 * time.Hour
)

// The problems of a plan that users branch on.
var (
	ErrDuplicateStep = errors.New("saga: duplicate step")
	ErrCycle         = errors.New("saga: steps wait for each other")
	ErrMissingUndo   = errors.New("saga: missing undo")
	ErrPivot         = errors.New("saga: misplaced pivot")
	ErrRetention     = errors.New("saga: retention too short")
	ErrPlanChanged   = errors.New("saga: plan changed under the same version")
)

// A Draft is a plan that is being declared, and what is wrong with it so far.
type Draft struct {
	Plan     *Plan
	problems []error
	checks   []func()
	Result   *Node
}

// Later lets check note problems once everything is declared.
func (d *Draft) Later(check func()) { d.checks = append(d.checks, check) }

// Problem notes err, unless a problem has the same text.
func (d *Draft) Problem(err error) {
	if !slices.ContainsFunc(d.problems, func(known error) bool { return known.Error() == err.Error() }) {
		d.problems = append(d.problems, err)
	}
}

// Positive notes a problem unless v is above zero.
func (d *Draft) Positive(field string, v int64, text any) {
	if v <= 0 {
		d.Problem(fmt.Errorf("%s: %v is not positive", field, text))
	}
}

// Duration notes a problem unless v is above zero and at most maxDuration.
func (d *Draft) Duration(field string, v time.Duration) {
	d.Positive(field, int64(v), v)
	if v > MaxDuration {
		d.Problem(fmt.Errorf("%s: %w", field, TooLong(v)))
	}
}

// Finish checks the draft and completes its plan. The engine's backoff may be that one.
func (d *Draft) Finish(backoff retry.Backoff) (*Plan, []error) {
	p := d.Plan
	d.dropUndos()
	for _, check := range d.checks {
		check()
	}
	d.checkNames()
	d.link()
	if cycle := p.cycle(); cycle != nil {
		d.Problem(fmt.Errorf("%w: %s", ErrCycle, strings.Join(cycle, " after ")))
	}
	d.checkMarks()
	if len(d.problems) == 0 { // else an input may be missing, or edges may be
		d.checkSkips()
	}
	d.checkPivot()
	d.checkUndos()
	d.problems = append(d.problems, p.RetentionProblems(backoff)...)
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	p.descend()
	p.Record = p.describe()
	return p, nil
}

// descend works out which steps run after a step. The plan is linked, without a cycle.
func (p *Plan) descend() {
	for i, above := range p.ancestors() {
		for b, runsBefore := range above {
			if runsBefore {
				p.Steps[b].Below = append(p.Steps[b].Below, i)
			}
		}
	}
}

// dropUndos takes the undo of its operation from a step that says that there is none.
func (d *Draft) dropUndos() {
	for _, s := range d.Plan.Steps {
		if s.InheritsUndo && (s.IsPivot || s.ReadOnly || s.Irreversible) {
			s.Undo, s.UndoCall = nil, nil
		}
	}
}

func (d *Draft) checkNames() {
	p := d.Plan
	if err := childkey.CheckName(p.Name); err != nil {
		d.Problem(fmt.Errorf("name: %w", errtext.Inner(err)))
	}
	d.Positive("version", int64(p.Version), p.Version)
	switch n := len(p.Steps); {
	case n == 0:
		d.Problem(errors.New("there are no steps"))
	case n > MaxSteps:
		d.Problem(fmt.Errorf("%d steps, at most %d", n, MaxSteps))
	}
	seen := make(map[string]bool)
	use := func(name string) {
		if seen[name] {
			d.Problem(fmt.Errorf("%w: %s is there twice; give the operations discriminators", ErrDuplicateStep, name))
		}
		seen[name] = true
	}
	for _, s := range p.Steps {
		use(s.Name)
		if s.Undo != nil {
			use(s.Undo.Name())
		}
	}
}

// link works out the edges of the graph.
func (d *Draft) link() {
	p := d.Plan
	for _, s := range p.Steps {
		if s.IsEach {
			p.Eaches = append(p.Eaches, s.Index)
		}
		s.Before = slices.Concat(s.Data, s.After)
		slices.Sort(s.Before)
		s.Before = slices.Compact(s.Before)
		for _, b := range s.Before {
			p.Steps[b].Behind = append(p.Steps[b].Behind, s.Index)
		}
		for _, b := range s.Data {
			p.Steps[b].Needed = true
		}
	}
}

// cycle returns the names of steps that wait for each other, nil if none do.
func (p *Plan) cycle() []string {
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(p.Steps))
	var path []int
	var visit func(i int) []string
	visit = func(i int) []string {
		path = append(path, i)
		defer func() { path = path[:len(path)-1] }()
		state[i] = open
		for _, b := range p.Steps[i].Before {
			if state[b] == open {
				var names []string
				for _, j := range path[slices.Index(path, b):] {
					names = append(names, p.Steps[j].Name)
				}
				return append(names, p.Steps[b].Name)
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
	for i := range p.Steps {
		if state[i] == unseen {
			if found := visit(i); found != nil {
				return found
			}
		}
	}
	return nil
}

func (d *Draft) checkMarks() {
	for _, s := range d.Plan.Steps {
		for _, m := range []struct {
			wrong bool
			text  string
		}{
			{s.IsPivot && s.Undo != nil, "the pivot has an undo, which would never run"},
			{s.IsPivot && (s.ReadOnly || s.Irreversible || s.Retriable), "the pivot is also ReadOnly, Irreversible or Retriable"},
			{s.ReadOnly && (s.Undo != nil || s.Irreversible), "a ReadOnly step has nothing to undo"},
			{s.Irreversible && s.Undo != nil, "an Irreversible step has an undo"},
		} {
			if m.wrong {
				d.Problem(fmt.Errorf("step %s: %s", s.Name, m.text))
			}
		}
	}
}

// isBare reports whether the step lacks an undo and every mark for compensation.
func (s *Step) isBare() bool {
	return s.Undo == nil && !s.IsPivot && !s.Retriable && !s.LeavesNothing()
}

// checkPivot finds the pivot and checks the steps before, after and beside it.
func (d *Draft) checkPivot() {
	p := d.Plan
	before := p.ancestors()
	for _, s := range p.Steps {
		switch {
		case !s.IsPivot:
		case p.Pivot == nil:
			p.Pivot = s
		default:
			d.noteMisplaced(s, "there are two pivots")
		}
	}
	if p.Pivot == nil {
		p.inferPivot(before)
		return
	}
	for _, s := range p.Steps {
		switch {
		case s.IsPivot || before[p.Pivot.Index][s.Index]:
		case !before[s.Index][p.Pivot.Index]:
			d.noteMisplaced(s, "it runs beside the pivot, and nobody could say whether to undo it")
		case s.failsByTime():
			d.noteMisplaced(s, "it runs after the pivot, and fails after its Timeout; make it Optional, or let it wait without a Timeout")
		case !s.Retriable && !s.IsSleep():
			d.noteMisplaced(s, "it runs after the pivot and is not Retriable")
		}
	}
}

// noteMisplaced notes that a step stands wrong to the pivot.
func (d *Draft) noteMisplaced(s *Step, why string) {
	d.Problem(fmt.Errorf("%w: step %s, pivot %s: %s", ErrPivot, s.Name, d.Plan.Pivot.Name, why))
}

// inferPivot makes the only bare step the pivot, if no other step can fail after it.
func (p *Plan) inferPivot(before [][]bool) {
	var only *Step
	for _, s := range p.Steps {
		if s.isBare() {
			if only != nil {
				return
			}
			only = s
		}
	}
	if only == nil || only.MaySkip() || only.IsEach {
		return
	}
	for _, s := range p.Steps {
		ahead, behind := before[only.Index][s.Index], before[s.Index][only.Index]
		if s != only && !ahead && (!behind || !s.Retriable && !s.IsSleep() || s.failsByTime()) {
			return
		}
	}
	only.IsPivot = true
	p.Pivot = only
}

// checkUndos finds the steps that would be left behind when another one fails.
func (d *Draft) checkUndos() {
	p := d.Plan
	before := p.ancestors()
	p.markSleeps(before)
	for _, s := range p.Steps {
		if !s.isBare() && !s.isForwardOnly() {
			continue
		}
		if s.isBare() && s.IsEach {
			d.Problem(fmt.Errorf("%w: step %s has no undo, and one of its items can fail after another; "+
				"give it Undo, ReadOnly, Irreversible or Retriable", ErrMissingUndo, s.Name))
			continue
		}
		for _, other := range p.Steps {
			if other != s && (other.CanFail() || s.isBare() && other.IsSleep()) && !before[s.Index][other.Index] {
				d.Problem(fmt.Errorf("%w: step %s has no undo, and %s can fail after it; "+
					"give it Undo, ReadOnly, Irreversible, Pivot or Retriable", ErrMissingUndo, s.Name, other.Name))
				break
			}
		}
	}
}
