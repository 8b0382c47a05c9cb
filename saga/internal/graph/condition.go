package graph

import (
	"errors"
	"fmt"
	"slices"
)

// MaySkip reports whether a saga can complete without the step.
func (s *Step) MaySkip() bool { return s.Conditional || s.Optional }

// findConditional marks the steps that can be left out before they begin: those with a condition, and those that need
// the output of a step that can be skipped.
func (p *Plan) findConditional() {
	maySkip := func(i int) bool { return p.Steps[i].MaySkip() }
	for found := true; found; {
		found = false
		for _, s := range p.Steps {
			if !s.Conditional && (s.When != nil || s.Input != nil && s.Input.IsMissing(maySkip)) {
				s.Conditional, found = true, true
			}
		}
	}
}

// checkSkips finds what a saga cannot do without, and can be skipped.
func (d *Draft) checkSkips() {
	p := d.Plan
	p.findConditional()
	for _, s := range p.Steps {
		switch {
		case !s.MaySkip():
		case s.IsPivot:
			d.Problem(fmt.Errorf("%w: step %s can be skipped, and the pivot cannot", ErrPivot, s.Name))
		case s.isBare():
			d.Problem(fmt.Errorf("%w: step %s can be skipped, so it is not the pivot, and has no undo", ErrMissingUndo, s.Name))
		}
	}
	if p.Result != nil && p.Result.IsMissing(func(i int) bool { return p.Steps[i].MaySkip() }) {
		d.Problem(errors.New("the result needs the output of a step that can be skipped; say with Or what it is then"))
	}
}

// HasSkips reports whether any step can be skipped.
func (p *Plan) HasSkips() bool { return slices.ContainsFunc(p.Steps, (*Step).MaySkip) }
