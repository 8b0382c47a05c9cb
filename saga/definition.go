package saga

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// The defaults of a saga.
const (
	DefaultAttempts       = 10
	DefaultUndoBudget     = 24 * time.Hour
	DefaultAttemptTimeout = time.Minute
	DefaultMaxParallel    = 16
)

// MaxSteps is how many steps one saga can have.
const MaxSteps = 256

// A Definition is a saga that takes an In and results in an Out: a graph of
// steps that was checked. It is immutable and safe for concurrent use. An
// [Engine] that has it among its Definitions runs it.
type Definition[In, Out any] struct{ plan *graph.Plan }

// AnyDefinition is a [Definition] of any types.
type AnyDefinition interface{ enginePlan() *graph.Plan }

func (d *Definition[In, Out]) enginePlan() *graph.Plan {
	if d == nil {
		return nil
	}
	return d.plan
}

// Define returns the saga that build declares. The name is a name as childkey's are. The
// version is at least 1. Definitions of several versions run side by side. Define does no I/O.
//
// Give the definition a new version if the steps change, or the values that the functions of
// [Map] compute. Do the same if you add, rename or remove a member of the input, of an output or
// of the result. A process that does not know a stored member leaves the saga to others.
//
// An added member needs no new version in two cases. Either all processes change at once, or
// nobody sets the member, and its tag has omitempty or omitzero: the same bytes are stored
// then. Use one of these tags for each member that you add to an input. An input is compared
// by the hash of its bytes. Without the tag, a key that is run again after the change is
// [ErrKeyReused], under every version.
//
// The error is a [*PlanError]. It lists all problems, with the names of their steps. The problems
// are duplicate names, cycles, foreign values, missing undos, steps on the wrong side of the
// pivot, times that are not positive, and types that JSON cannot carry.
func Define[In, Out any](name string, version int, build func(b *Builder[In, Out])) (*Definition[In, Out], error) {
	d := &graph.Draft{Plan: &graph.Plan{
		Name: name, Version: version, Input: formOf[In](),
		UndoBudget: DefaultUndoBudget, MaxParallel: DefaultMaxParallel,
	}}
	if err := contract.CheckType[In](); err != nil {
		d.Problem(fmt.Errorf("input: %w", err))
	}
	if err := contract.CheckType[Out](); err != nil {
		d.Problem(fmt.Errorf("result: %w", err))
	}
	if build == nil {
		d.Problem(errors.New("the function that declares it is nil"))
	} else {
		build(&Builder[In, Out]{d})
	}
	switch {
	case d.Result != nil:
		d.Plan.Result = d.Result
		for _, i := range d.Result.Needs {
			d.Plan.Steps[i].Needed = true
		}
	case reflect.TypeFor[Out]() != reflect.TypeFor[struct{}]():
		d.Problem(errors.New("there is no Return of the result"))
	}
	p, problems := d.Finish(retry.Backoff{Base: DefaultBackoffBase, Cap: DefaultBackoffCap, Jitter: 1})
	if len(problems) > 0 {
		return nil, planError(d.Plan, problems...)
	}
	return &Definition[In, Out]{p}, nil
}

// MustDefine is [Define] for the variables of a package. It panics with
// Define's error.
func MustDefine[In, Out any](name string, version int, build func(b *Builder[In, Out])) *Definition[In, Out] {
	d, err := Define(name, version, build)
	if err != nil {
		panic(err) //nolint:forbidigo // what Must... promises
	}
	return d
}

// Name returns the saga's name.
func (d *Definition[In, Out]) Name() string { return d.plan.Name }

// Version returns the definition's version.
func (d *Definition[In, Out]) Version() int { return d.plan.Version }

// UndoBudget returns what [Builder.UndoBudget] set.
func (d *Definition[In, Out]) UndoBudget() time.Duration { return d.plan.UndoBudget }

// Timeout is the time of the saga before its pivot ([Builder.Timeout]); 0: none.
func (d *Definition[In, Out]) Timeout() time.Duration { return d.plan.Timeout }

// Plan returns what a journal keeps of the definition.
func (d *Definition[In, Out]) Plan() journal.PlanRecord { return d.plan.Record }

// Steps returns the steps, in the order of their declaration.
func (d *Definition[In, Out]) Steps() []StepInfo {
	infos := stepInfosOf(d.plan)
	for i, s := range d.plan.Steps {
		infos[i].ZeroOutput, infos[i].Attempts, infos[i].Timeout = s.Zero, s.Attempts(), max(s.Timeout, s.Wait)
	}
	return infos
}

// A Builder takes the declarations of a saga whose input is In and whose
// result is Out; [Define] passes it to its function. It is of no use after that.
type Builder[In, Out any] struct{ draft *graph.Draft }

// Input is the saga's input.
func (b *Builder[In, Out]) Input() Value[In] {
	return Value[In]{&graph.Node{Draft: b.draft, Input: true, Eval: func(f *graph.Facts) any { return f.Input }}}
}

// Timeout is how long a saga may take to pass its pivot. After that time the saga is compensated.
// The time counts from the moment when the first engine got the saga, so a saga that waits for an
// engine loses no time. Without a Timeout only the policies of its steps bound a saga
// ([StepRef.Retry], [StepRef.Timeout]). Timeout cuts off no call.
func (b *Builder[In, Out]) Timeout(d time.Duration) {
	b.draft.Duration("Timeout", d)
	b.draft.Plan.Timeout = d
}

// UndoBudget is how long what must succeed is tried before the saga is stuck:
// undos, and past the pivot the [StepRef.Retriable] steps. A Retriable step before the
// pivot is tried for as long, and then the saga is compensated. The default is
// [DefaultUndoBudget].
func (b *Builder[In, Out]) UndoBudget(d time.Duration) {
	b.draft.Duration("UndoBudget", d)
	b.draft.Plan.UndoBudget = d
}

// MaxParallel is how many calls of one saga run at a time; the
// default is [DefaultMaxParallel].
func (b *Builder[In, Out]) MaxParallel(n int) {
	b.draft.Positive("MaxParallel", int64(n), n)
	b.draft.Plan.MaxParallel = n
}

// Return makes v the saga's result. A saga without it returns the zero Out,
// which only a struct{} may be.
func Return[In, Out any](b *Builder[In, Out], v Value[Out]) {
	switch {
	case b.draft.Result != nil:
		b.draft.Problem(fmt.Errorf("%w: Return was called twice", ErrValue))
	case v.node == nil || v.node.Draft != b.draft:
		b.draft.Problem(fmt.Errorf("%w: the result is no value of this plan, or one of a nil function", ErrValue))
	default:
		b.draft.Result = v.node
	}
}
