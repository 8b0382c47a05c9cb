package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// An Each is a step that makes no call. Once it may begin it ends with the names of its items as its result, and from then
// on the saga's own copy of the plan has a step for each of them: behind all other steps, so that no step's index changes.
// They run after the Each, and what waits for it waits for them. The journal has the names before an item is called, as
// it has any outcome before what follows from it.

// DefaultMaxItems is how many items an Each has at most, unless it says otherwise.
const DefaultMaxItems = 100

// AllItems stands for the items in the name of an Each.
const AllItems = "*"

// An Item is one item of an Each.
type Item struct {
	Name  string // its discriminator
	Input any    // of its call
}

// noItem is the input of an item that the saga's values do not have any more.
type noItem struct{ step string }

func (n *noItem) Error() string {
	return fmt.Sprintf("saga: %s is no item any more: its functions are not pure", n.step)
}

// makesNoCall reports whether the engine itself ends the step.
func (s *Step) makesNoCall() bool { return s.IsEach || s.isSleep() }

// isOfAll reports whether the address is that of an Each.
func (a Address) isOfAll() bool {
	n := len(a.Discriminators)
	return n > 0 && a.Discriminators[n-1] == AllItems
}

// ofItem returns the address of one item of an Each.
func (a Address) ofItem(name string) Address {
	last := len(a.Discriminators) - 1
	a.Discriminators = append(slices.Clone(a.Discriminators[:last]), name)
	return a
}

// Each returns the name of the Each that the step is an item of; "": it is none.
func (s *Step) Each() string { return s.each }

// Items returns the indexes of the steps of an Each's items, in their order; nil: they are not known, or there are none.
func (s *Step) Items() []int { return s.items }

// item returns the step of one item of s, at that index of the plan.
func (s *Step) item(name string, index int) *Step {
	c := *s
	c.Index, c.Address, c.each = index, s.Address.ofItem(name), s.Name
	c.Name = c.Address.Name()
	if s.Undo != nil {
		undo := s.Undo.ofItem(name)
		c.Undo = &undo
	}
	c.IsEach, c.Split, c.items = false, nil, nil
	c.Conditional, c.When = false, nil // which the Each has
	c.Before, c.After, c.behind, c.below = []int{s.Index}, nil, nil, nil
	if s.Split != nil {
		c.Input = s.itemInput(name, c.Name)
	}
	return &c
}

// itemInput returns the input of the item of that name.
func (s *Step) itemInput(name, step string) *Node {
	n := *s.Input
	n.Eval = func(f *Facts) any {
		for _, item := range s.Split(s.Input.Eval(f)) {
			if item.Name == name {
				return item.Input
			}
		}
		return &noItem{step}
	}
	return &n
}

// nodes are the values that the step's own functions need.
func (s *Step) nodes() []*Node {
	if s.When == nil {
		return []*Node{s.Input}
	}
	return []*Node{s.Input, s.When}
}

// compute returns what a step that makes no call is decided by: the items of an Each.
func (s *Step) compute(known *Facts) any {
	if s.When != nil {
		s.When.Eval(known) // it held, or panicked, and does so again
	}
	if !s.IsEach {
		return s.Input.Eval(known)
	}
	return s.Split(s.Input.Eval(known))
}

// expand returns the plan with steps for the items of those names of the Each at that index.
func (p *Plan) expand(index int, names []string) *Plan {
	q := *p
	q.Steps = make([]*Step, len(p.Steps), len(p.Steps)+len(names))
	for i, s := range p.Steps {
		c := *s
		c.behind, c.below = nil, nil
		q.Steps[i] = &c
	}
	each := q.Steps[index]
	each.items = make([]int, len(names))
	for k, name := range names {
		each.items[k] = len(q.Steps)
		q.Steps = append(q.Steps, each.item(name, len(q.Steps)))
	}
	for _, s := range q.Steps[:len(p.Steps)] {
		if slices.Contains(s.Data, index) {
			s.Data = slices.Concat(s.Data, each.items)
		}
		if slices.Contains(s.Before, index) {
			s.Before = slices.Concat(s.Before, each.items)
		}
	}
	for _, s := range q.Steps {
		for _, b := range s.Before {
			q.Steps[b].behind = append(q.Steps[b].behind, s.Index)
		}
	}
	q.descend()
	if p.pivot != nil {
		q.pivot = q.Steps[p.pivot.Index]
	}
	q.sleeps = slices.Clone(p.sleeps)
	for i, s := range q.sleeps {
		q.sleeps[i] = q.Steps[s.Index]
	}
	return &q
}

// withItems returns the plan with the items that the entries of its saga name.
func (p *Plan) withItems(entries []journal.Entry) (*Plan, error) {
	if len(p.eaches) == 0 {
		return p, nil
	}
	for _, e := range entries {
		s := p.find(e.Step)
		if s == nil || !s.IsEach || e.Undo || e.Pending || e.Outcome != retry.Completed || s.items != nil {
			continue
		}
		names, err := namesOf(e)
		if err == nil {
			err = p.checkNames(s, names)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the items of %s: %w", journal.ErrCorrupt, s.Name, err)
		}
		p = p.expand(s.Index, names)
	}
	return p, nil
}

// WithItems is withItems for entries without results, too: then the items are those that have entries.
func (p *Plan) WithItems(entries []journal.Entry) (*Plan, error) {
	if len(p.eaches) == 0 {
		return p, nil
	}
	entries = slices.Clone(entries)
	for i, e := range entries {
		if s := p.find(e.Step); s != nil && s.IsEach && e.Result == nil {
			entries[i].Result, _ = json.Marshal(p.namesIn(entries, s)) // strings
		}
	}
	return p.withItems(entries)
}

// namesIn returns the names of those items of the Each s that have entries.
func (p *Plan) namesIn(entries []journal.Entry, s *Step) []string {
	names := []string{}
	for _, e := range entries {
		a, err := (&line{e.Step}).name()
		if err != nil || len(a.Discriminators) == 0 || p.find(e.Step) != nil {
			continue
		}
		name := a.Discriminators[len(a.Discriminators)-1]
		if s.Address.ofItem(name).Name() == e.Step && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// namesOf returns the names of the items that the entry of an Each has.
func namesOf(e journal.Entry) (names []string, err error) {
	err = json.Unmarshal(e.Result, &names)
	return names, err
}

// CheckItems returns what is wrong with the items of the Each s.
func (p *Plan) CheckItems(s *Step, items []Item) error {
	if n := len(items); n > s.MaxItems {
		return fmt.Errorf("%d items, at most %d (Max)", n, s.MaxItems)
	}
	return p.checkNames(s, namesFrom(items))
}

// namesFrom returns the names of items.
func namesFrom(items []Item) []string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.Name
	}
	return names
}

// checkNames returns why steps for the items of the Each s cannot have those names.
func (p *Plan) checkNames(s *Step, names []string) error {
	if n, others := len(names), len(p.Steps); others+n > MaxSteps {
		return fmt.Errorf("%d items beside %d steps, at most %d (MaxSteps) in all", n, others, MaxSteps)
	}
	taken := make(map[string]bool, 2*(len(p.Steps)+len(names)))
	for _, other := range p.Steps {
		taken[other.Name] = true
		if other.Undo != nil {
			taken[other.Undo.Name()] = true
		}
	}
	for i, name := range names {
		err := childkey.CheckDiscriminators(name)
		if err == nil && !utf8.ValidString(name) {
			err = errors.New("it is not UTF-8")
		}
		if err != nil {
			return fmt.Errorf("the name of item %d, %.60q: %w", i+1, name, err)
		}
		addresses := []Address{s.Address.ofItem(name)}
		if s.Undo != nil {
			addresses = append(addresses, s.Undo.ofItem(name))
		}
		for _, a := range addresses {
			if taken[a.Name()] {
				return fmt.Errorf("the name of item %d, %.60q: there is another %s", i+1, name, a.Name())
			}
			taken[a.Name()] = true
		}
	}
	return nil
}

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
	if len(p.plan.eaches) == 0 || p.status != journal.Running || p.cancel && !p.isCommitted() {
		return false, nil
	}
	if err := x.checkReadable(); err != nil {
		return false, err
	}
	for _, i := range p.plan.eaches {
		if expanded, err = x.expand(p.plan.Steps[i]); expanded || err != nil {
			return expanded, err
		}
	}
	return false, nil
}

func (x *execution) expand(s *Step) (expanded bool, err error) {
	p, now := x.progress, x.now()
	l := &p.forward[s.Index]
	if l.isEnded() || s.When != nil && !p.isEnabled(s) { // it may be skipped
		return false, nil
	}
	input, err := x.inputOf(s)
	if input == nil || err != nil {
		return false, err
	}
	names, stored, wrong := p.plan.namesToStore(s, input)
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
func (p *Plan) namesToStore(s *Step, input any) (names []string, stored []byte, err error) {
	if panicked, ok := input.(*sdk.PanicError); ok {
		return nil, nil, fmt.Errorf("items: %w", panicked)
	}
	items, _ := input.([]Item)
	if err := p.CheckItems(s, items); err != nil {
		return nil, nil, err
	}
	names = namesFrom(items)
	stored, err = json.Marshal(names)
	if n := len(stored); err == nil && n > journal.MaxResultBytes {
		err = fmt.Errorf("the names of the items take %d bytes, at most %d", n, journal.MaxResultBytes)
	}
	return names, stored, err
}

// grow adds legs for the items of the Each s.
func (p *progress) grow(s *Step, names []string) {
	p.plan = p.plan.expand(s.Index, names)
	p.forward = append(p.forward, make([]leg, len(names))...)
	p.undo = append(p.undo, make([]leg, len(names))...)
}

// decodeItems adds the outputs of an Each's items to f, as the output of the Each.
func (p *progress) decodeItems(f *Facts, s *Step) error {
	outputs := make([]any, len(s.items))
	for k, i := range s.items {
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
	return slices.ContainsFunc(p.plan.Steps[i].items, p.lacks)
}

// checkItems compares the items that the journal has with those that this process computes, unless no call needs them. A
// difference is one of builds, as an unknown member is: another build may have the functions that named these items.
func (p *progress) checkItems(input []byte, now time.Time) error {
	for _, i := range p.plan.eaches {
		s := p.plan.Steps[i]
		if s.items == nil || !p.needsItems(s, now) {
			continue
		}
		known, err := p.facts(input, s.Input)
		if err != nil {
			return err
		}
		err = Guarded(func() error { return p.compareItems(s, s.Split(s.Input.Eval(known))) })
		if err != nil {
			return fmt.Errorf("%w: items of %s: %w", journal.ErrNewer, s.Name, err)
		}
	}
	return nil
}

// needsItems reports whether the inputs of an Each's items are still read in the saga's direction.
func (p *progress) needsItems(s *Step, now time.Time) bool {
	if p.status == journal.Running {
		return !p.isStarved(s)
	}
	return slices.ContainsFunc(s.items, func(i int) bool {
		at := p.standing(p.plan.Steps[i], now)
		return at != cleared && at != blocked
	})
}

// compareItems returns how items differ from those of the journal.
func (p *progress) compareItems(s *Step, items []Item) error {
	if len(items) != len(s.items) {
		return fmt.Errorf("%d of them by this build's functions, and %d in the journal", len(items), len(s.items))
	}
	for k, item := range items {
		if stored := p.plan.Steps[s.items[k]]; s.Address.ofItem(item.Name).Name() != stored.Name {
			return fmt.Errorf("item %d is %.60q by this build's functions, and the journal has %.80s", k+1, item.Name, stored.Name)
		}
	}
	return nil
}
