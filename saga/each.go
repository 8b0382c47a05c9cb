package saga

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// DefaultMaxItems is how many items an [Each] has at most, unless [EachRef.Max] says otherwise.
const DefaultMaxItems = graph.DefaultMaxItems

// An EachRef is a declared step that is called for each item of a list. Its methods mean for the call of every item what
// those of a [StepRef] mean for its call, and return it.
//
// It is never the pivot, since the saga could be neither undone nor go on between two items. There is no Optional either:
// an item that was left out would have no output. Let the callee answer what became of the item, instead of refusing it.
type EachRef[In, Out any] struct {
	step *StepRef[In, Out]
	at   []func(In) string // by wildcard of the step's use; nil: the same for all items
}

// Each declares one call of op for each of items, a list that is known only when the saga runs. The name of an item is the
// discriminator of its call, so the call has the same name and key as a [Step] with op.For(name): they do not depend on the
// item's place. The step itself is named with a star, such as "inventory.reserve[*]", and its items "inventory.reserve[tea]".
//
// The items run side by side, at most [Builder.MaxParallel] of them, and count in [MaxSteps]. Steps behind the Each wait
// for all of them. If one is refused the saga is compensated: each item that took effect, or may have, is undone by itself.
// An Each without items makes no call, and its output is an empty list.
//
// The journal has the names before an item is called. To change what items or name compute, or the order of the items, is
// to change the plan, as it is for a [Map]: a process that computes other items than the journal has leaves the saga to
// others. Both must be pure, and a list made from a Go map must be sorted.
//
// Two items of one name, a name that is no discriminator or is "*", and more items than [EachRef.Max] or MaxSteps allow
// are refused, as a call is that its callee refuses: by [Define] if items is a constant, and else as soon as the saga knows
// the list. No item is called then.
func Each[SagaIn, SagaOut, In, Out any](
	b *Builder[SagaIn, SagaOut], op contract.Operation[In, Out], items Value[[]In], name func(item In) string,
) *EachRef[In, Out] {
	e := declareEach[In, Out](b.draft, addressOf(op, append(op.Discriminators(), graph.AllItems)), items, name)
	e.step.calls(op)
	return e
}

// EachFunc is [Each] for a function, as [StepFunc] is [Step] for one. The name of the step is "service.operation".
func EachFunc[SagaIn, SagaOut, In, Out any](
	b *Builder[SagaIn, SagaOut], step string, items Value[[]In], name func(item In) string,
	fn func(ctx context.Context, call Call[In]) (Out, error),
) *EachRef[In, Out] {
	service, operation, err := splitName(step)
	if err != nil {
		b.draft.Problem(err)
	}
	e := declareEach[In, Out](b.draft, graph.Address{
		Service: service, Operation: operation, Discriminators: []string{graph.AllItems}, Shape: graph.Function,
	}, items, name)
	e.step.runs(fn)
	return e
}

func declareEach[In, Out any](d *graph.Draft, to graph.Address, items Value[[]In], name func(In) string) *EachRef[In, Out] {
	e := &EachRef[In, Out]{step: declare[In, Out](d, to, items.node)}
	s := e.step.step
	s.IsEach, s.MaxItems = true, DefaultMaxItems
	if name == nil {
		d.Problem(fmt.Errorf("step %s: the function that names the items is nil", s.Name))
		return e
	}
	s.Split = func(computed any) []graph.Item { return e.split(computed, name) }
	d.Later(e.checkConstant)
	return e
}

// split returns the items of a list that was computed.
func (e *EachRef[In, Out]) split(computed any, name func(In) string) []graph.Item {
	list := inputOf[[]In](computed)
	shared, _ := computed.(filled)
	items := make([]graph.Item, len(list))
	for i, in := range list {
		items[i] = graph.Item{Name: name(in), Input: in}
		if e.at != nil {
			items[i].Input = filled{in, e.valuesFor(in, shared.values)}
		}
	}
	return items
}

// valuesFor returns the values of an item's path. shared are those that all items have.
func (e *EachRef[In, Out]) valuesFor(in In, shared []string) []string {
	values := make([]string, len(e.at))
	for i, of := range e.at {
		if of != nil {
			values[i] = of(in)
		} else {
			values[i], shared = shared[0], shared[1:]
		}
	}
	return values
}

// checkConstant finds what is wrong with items that are known already.
func (e *EachRef[In, Out]) checkConstant() {
	d, s := e.step.draft, e.step.step
	if s.Input == nil || s.Input.Input || len(s.Input.Needs) > 0 {
		return
	}
	err := graph.Guarded(func() error { return d.Plan.CheckItems(s, s.Split(s.Input.Eval(new(graph.Facts)))) })
	if err != nil {
		d.Problem(fmt.Errorf("step %s: %w", s.Name, err))
	}
}

func (e *EachRef[In, Out]) ref() (*graph.Draft, *graph.Step) {
	if e == nil {
		return nil, nil
	}
	return e.step.ref()
}

// Max is how many items there may be at most. It is no part of the plan: to change it needs no new version.
func (e *EachRef[In, Out]) Max(n int) *EachRef[In, Out] {
	d, s := e.step.draft, e.step.step
	d.Positive("step "+s.Name+": Max", int64(n), n)
	if n > MaxSteps {
		d.Problem(fmt.Errorf("step %s: Max: %d is more than MaxSteps, %d", s.Name, n, MaxSteps))
	}
	s.MaxItems = n
	return e
}

// Output is what the calls return, in the order of the items.
func (e *EachRef[In, Out]) Output() Value[[]Out] {
	i := e.step.step.Index
	return Value[[]Out]{&graph.Node{Draft: e.step.draft, Needs: []int{i}, Eval: func(f *graph.Facts) any {
		outputs := as[[]any](f.Outputs[i])
		list := make([]Out, len(outputs))
		for k, output := range outputs {
			list[k] = as[Out](output)
		}
		return list
	}}}
}

// Or is [StepRef.Or]: v if the step was skipped. Then it had no items.
func (e *EachRef[In, Out]) Or(v Value[[]Out]) Value[[]Out] {
	return orElse(e.step.step.Index, e.Output(), v)
}

// ReadOutput is [StepRef.ReadOutput]: done is false unless all items are completed.
func (e *EachRef[In, Out]) ReadOutput(r journal.Record) (out []Out, done bool, err error) {
	plan := e.step.draft.Plan
	if err := checkRecord(plan, r); err != nil {
		return nil, false, err
	}
	p, err := newProgress(plan, r)
	if err != nil {
		return nil, false, err
	}
	if p.statusOf(p.plan.Steps[e.step.step.Index]) != StepCompleted {
		return nil, false, nil
	}
	items := p.plan.Steps[e.step.step.Index].Items
	if slices.ContainsFunc(items, func(i int) bool { return p.statusOf(p.plan.Steps[i]) != StepCompleted }) {
		return nil, false, nil
	}
	out = make([]Out, len(items))
	for k, i := range items {
		if out[k], err = readOutput[Out](p, p.plan.Steps[i]); err != nil {
			return nil, true, err
		}
	}
	return out, true, nil
}

// When is [StepRef.When], for all items together.
func (e *EachRef[In, Out]) When(v Value[bool]) *EachRef[In, Out] {
	e.step.When(v)
	return e
}

// At is [StepRef.At], with one value for all items.
func (e *EachRef[In, Out]) At(wildcard string, v Value[string]) *EachRef[In, Out] {
	if e.step.At(wildcard, v); e.step.use != nil && len(e.step.use.at) > len(e.at) {
		e.at = append(e.at, nil)
	}
	return e
}

// AtItem is At with the value that fn makes of the item itself. fn is pure, as the functions of a [Map] are.
func (e *EachRef[In, Out]) AtItem(wildcard string, fn func(item In) string) *EachRef[In, Out] {
	d, s := e.step.draft, e.step.step
	switch {
	case e.step.use == nil:
		d.Problem(fmt.Errorf("step %s: AtItem: the step is no operation, or an invalid one", s.Name))
	case fn == nil:
		d.Problem(fmt.Errorf("step %s: AtItem: the function for {%s} is nil", s.Name, wildcard))
	default:
		e.step.use.at = append(e.step.use.at, wildcard)
		e.at = append(e.at, fn)
	}
	return e
}

// Undo is [StepRef.Undo]. Each item is undone by a call of its own, with a discriminator of its own.
func (e *EachRef[In, Out]) Undo(op contract.UndoOperation[In, Out]) *EachRef[In, Out] {
	e.step.Undo(op)
	return e
}

// UndoFunc is [StepRef.UndoFunc].
func (e *EachRef[In, Out]) UndoFunc(name string, fn func(ctx context.Context, undo UndoCall[In, Out]) error) *EachRef[In, Out] {
	e.step.UndoFunc(name, fn)
	return e
}

// Retriable is [StepRef.Retriable]. A list that is refused past the pivot makes the saga stuck.
func (e *EachRef[In, Out]) Retriable() *EachRef[In, Out] {
	e.step.Retriable()
	return e
}

// ReadOnly is [StepRef.ReadOnly].
func (e *EachRef[In, Out]) ReadOnly() *EachRef[In, Out] {
	e.step.ReadOnly()
	return e
}

// Irreversible is [StepRef.Irreversible].
func (e *EachRef[In, Out]) Irreversible() *EachRef[In, Out] {
	e.step.Irreversible()
	return e
}

// After is [StepRef.After].
func (e *EachRef[In, Out]) After(steps ...AnyStep) *EachRef[In, Out] {
	e.step.After(steps...)
	return e
}

// Retry is [StepRef.Retry].
func (e *EachRef[In, Out]) Retry(p RetryPolicy) *EachRef[In, Out] {
	e.step.Retry(p)
	return e
}

// AttemptTimeout is [StepRef.AttemptTimeout].
func (e *EachRef[In, Out]) AttemptTimeout(d time.Duration) *EachRef[In, Out] {
	e.step.AttemptTimeout(d)
	return e
}

// Timeout is [StepRef.Timeout]. The time of all items begins together.
func (e *EachRef[In, Out]) Timeout(d time.Duration) *EachRef[In, Out] {
	e.step.Timeout(d)
	return e
}

// Retention is [StepRef.Retention].
func (e *EachRef[In, Out]) Retention(d time.Duration) *EachRef[In, Out] {
	e.step.Retention(d)
	return e
}
