package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
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

// NoItem is the input of an item that the saga's values do not have any more.
type NoItem struct{ step string }

func (n *NoItem) Error() string {
	return fmt.Sprintf("saga: %s is no item any more: its functions are not pure", n.step)
}

// MakesNoCall reports whether the engine itself ends the step.
func (s *Step) MakesNoCall() bool { return s.IsEach || s.IsSleep() }

// isOfAll reports whether the address is that of an Each.
func (a Address) isOfAll() bool {
	n := len(a.Discriminators)
	return n > 0 && a.Discriminators[n-1] == AllItems
}

// OfItem returns the address of one item of an Each.
func (a Address) OfItem(name string) Address {
	last := len(a.Discriminators) - 1
	a.Discriminators = append(slices.Clone(a.Discriminators[:last]), name)
	return a
}

// item returns the step of one item of s, at that index of the plan.
func (s *Step) item(name string, index int) *Step {
	c := *s
	c.Index, c.Address, c.Each = index, s.Address.OfItem(name), s.Name
	c.Name = c.Address.Name()
	if s.Undo != nil {
		undo := s.Undo.OfItem(name)
		c.Undo = &undo
	}
	c.IsEach, c.Split, c.Items = false, nil, nil
	c.Conditional, c.When = false, nil // which the Each has
	c.Before, c.After, c.Behind, c.Below = []int{s.Index}, nil, nil, nil
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
		return &NoItem{step}
	}
	return &n
}

// Nodes are the values that the step's own functions need.
func (s *Step) Nodes() []*Node {
	if s.When == nil {
		return []*Node{s.Input}
	}
	return []*Node{s.Input, s.When}
}

// Compute returns what a step that makes no call is decided by: the items of an Each.
func (s *Step) Compute(known *Facts) any {
	if s.When != nil {
		s.When.Eval(known) // it held, or panicked, and does so again
	}
	if !s.IsEach {
		return s.Input.Eval(known)
	}
	return s.Split(s.Input.Eval(known))
}

// Expand returns the plan with steps for the items of those names of the Each at that index.
func (p *Plan) Expand(index int, names []string) *Plan {
	q := *p
	q.Steps = make([]*Step, len(p.Steps), len(p.Steps)+len(names))
	for i, s := range p.Steps {
		c := *s
		c.Behind, c.Below = nil, nil
		q.Steps[i] = &c
	}
	each := q.Steps[index]
	each.Items = make([]int, len(names))
	for k, name := range names {
		each.Items[k] = len(q.Steps)
		q.Steps = append(q.Steps, each.item(name, len(q.Steps)))
	}
	for _, s := range q.Steps[:len(p.Steps)] {
		if slices.Contains(s.Data, index) {
			s.Data = slices.Concat(s.Data, each.Items)
		}
		if slices.Contains(s.Before, index) {
			s.Before = slices.Concat(s.Before, each.Items)
		}
	}
	for _, s := range q.Steps {
		for _, b := range s.Before {
			q.Steps[b].Behind = append(q.Steps[b].Behind, s.Index)
		}
	}
	q.descend()
	if p.Pivot != nil {
		q.Pivot = q.Steps[p.Pivot.Index]
	}
	q.Sleeps = slices.Clone(p.Sleeps)
	for i, s := range q.Sleeps {
		q.Sleeps[i] = q.Steps[s.Index]
	}
	return &q
}

// WithItems returns the plan with the items that the entries of its saga name.
func (p *Plan) WithItems(entries []journal.Entry) (*Plan, error) {
	if len(p.Eaches) == 0 {
		return p, nil
	}
	for _, e := range entries {
		s := p.Find(e.Step)
		if s == nil || !s.IsEach || e.Undo || e.Pending || e.Outcome != retry.Completed || s.Items != nil {
			continue
		}
		names, err := namesOf(e)
		if err == nil {
			err = p.checkNames(s, names)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the items of %s: %w", journal.ErrCorrupt, s.Name, err)
		}
		p = p.Expand(s.Index, names)
	}
	return p, nil
}

// WithShownItems is WithItems for entries without results, too: then the items are those that have entries.
func (p *Plan) WithShownItems(entries []journal.Entry) (*Plan, error) {
	if len(p.Eaches) == 0 {
		return p, nil
	}
	entries = slices.Clone(entries)
	for i, e := range entries {
		if s := p.Find(e.Step); s != nil && s.IsEach && e.Result == nil {
			entries[i].Result, _ = json.Marshal(p.namesIn(entries, s)) // strings
		}
	}
	return p.WithItems(entries)
}

// namesIn returns the names of those items of the Each s that have entries.
func (p *Plan) namesIn(entries []journal.Entry, s *Step) []string {
	names := []string{}
	for _, e := range entries {
		a, err := (&line{e.Step}).name()
		if err != nil || len(a.Discriminators) == 0 || p.Find(e.Step) != nil {
			continue
		}
		name := a.Discriminators[len(a.Discriminators)-1]
		if s.Address.OfItem(name).Name() == e.Step && !slices.Contains(names, name) {
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
	return p.checkNames(s, NamesFrom(items))
}

// NamesFrom returns the names of items.
func NamesFrom(items []Item) []string {
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
		addresses := []Address{s.Address.OfItem(name)}
		if s.Undo != nil {
			addresses = append(addresses, s.Undo.OfItem(name))
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
