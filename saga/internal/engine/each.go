package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// moveUncalled ends the steps that the engine itself ends, as far as that is due: those that are not to run, sleeps, and
// each Each whose items can be known. The end of one may begin another.
func (x *execution) moveUncalled() error {
	for {
		x.skip()
		if err := x.moveSleeps(); err != nil {
			return err
		}
		expanded, err := x.expandNext()
		if !expanded || err != nil {
			return err
		}
	}
}

// expandNext ends an Each that may begin, and reports whether there was one. It refuses those whose items are wrong, as
// soon as these are known.
func (x *execution) expandNext() (expanded bool, err error) {
	p := x.progress
	if len(p.plan.Eaches) == 0 || p.status != journal.Running || p.cancel && !p.isCommitted() {
		return false, nil
	}
	if err := x.checkReadable(); err != nil {
		return false, err
	}
	for _, i := range p.plan.Eaches {
		if expanded, err = x.expand(p.plan.Steps[i]); expanded || err != nil {
			return expanded, err
		}
	}
	return false, nil
}

func (x *execution) expand(s *graph.Step) (expanded bool, err error) {
	p, now := x.progress, x.now()
	l := &p.forward[s.Index]
	if l.isEnded() || s.When != nil && !p.isEnabled(s) { // it may be skipped
		return false, nil
	}
	input, err := x.inputOf(s)
	if input == nil || err != nil {
		return false, err
	}
	names, stored, wrong := namesToStore(p.plan, s, input)
	switch {
	case wrong != nil:
		l.conclude(retry.Rejected, now)
		l.last.Detail = detail(wrong)
	case !p.isEnabled(s):
		return false, nil
	default:
		l.conclude(retry.Completed, now)
		l.result = stored
		p.grow(s, names)
	}
	x.must = true // before a call that it lets begin
	return wrong == nil, nil
}

// namesToStore returns the names of what inputOf returned for the Each s, or what is wrong with it.
func namesToStore(p *graph.Plan, s *graph.Step, input any) (names []string, stored []byte, err error) {
	if panicked, ok := input.(*sdk.PanicError); ok {
		return nil, nil, fmt.Errorf("items: %w", panicked)
	}
	items, _ := input.([]graph.Item)
	if err := p.CheckItems(s, items); err != nil {
		return nil, nil, err
	}
	names = graph.NamesFrom(items)
	stored, err = json.Marshal(names)
	if n := len(stored); err == nil && n > journal.MaxResultBytes {
		err = fmt.Errorf("the names of the items take %d bytes, at most %d", n, journal.MaxResultBytes)
	}
	return names, stored, err
}

// grow adds legs for the items of the Each s.
func (p *progress) grow(s *graph.Step, names []string) {
	p.plan = p.plan.Expand(s.Index, names)
	p.forward = append(p.forward, make([]leg, len(names))...)
	p.undo = append(p.undo, make([]leg, len(names))...)
}

// decodeItems adds the outputs of an Each's items to f, as the output of the Each.
func (p *progress) decodeItems(f *graph.Facts, s *graph.Step) error {
	outputs := make([]any, len(s.Items))
	for k, i := range s.Items {
		if err := p.decode(f, i); err != nil {
			return err
		}
		outputs[k] = f.Outputs[i]
	}
	f.Outputs[s.Index] = outputs
	return nil
}

// lacks reports whether the output of the step, or of one of its items, is not stored.
func (p *progress) lacks(i int) bool {
	if l := &p.forward[i]; l.result == nil && !l.isSkipped() {
		return true
	}
	return slices.ContainsFunc(p.plan.Steps[i].Items, p.lacks)
}

// checkItems compares the items that the journal has with those that this process computes, unless no call needs them. A
// difference is one of builds, as an unknown member is: another build may have the functions that named these items.
func (p *progress) checkItems(input []byte, now time.Time) error {
	for _, i := range p.plan.Eaches {
		s := p.plan.Steps[i]
		if s.Items == nil || !p.needsItems(s, now) {
			continue
		}
		known, err := p.facts(input, s.Input)
		if err != nil {
			return err
		}
		err = graph.Guarded(func() error { return p.compareItems(s, s.Split(s.Input.Eval(known))) })
		if err != nil {
			return fmt.Errorf("%w: items of %s: %w", journal.ErrNewer, s.Name, err)
		}
	}
	return nil
}

// needsItems reports whether the inputs of an Each's items are still read in the saga's direction.
func (p *progress) needsItems(s *graph.Step, now time.Time) bool {
	if p.status == journal.Running {
		return !p.isStarved(s)
	}
	return slices.ContainsFunc(s.Items, func(i int) bool {
		at := p.standing(p.plan.Steps[i], now)
		return at != cleared && at != blocked
	})
}

// compareItems returns how items differ from those of the journal.
func (p *progress) compareItems(s *graph.Step, items []graph.Item) error {
	if len(items) != len(s.Items) {
		return fmt.Errorf("%d of them by this build's functions, and %d in the journal", len(items), len(s.Items))
	}
	for k, item := range items {
		if stored := p.plan.Steps[s.Items[k]]; s.Address.OfItem(item.Name).Name() != stored.Name {
			return fmt.Errorf("item %d is %.60q by this build's functions, and the journal has %.80s", k+1, item.Name, stored.Name)
		}
	}
	return nil
}
