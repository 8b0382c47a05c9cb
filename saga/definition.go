package saga

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// A Definition is a saga that takes an In and results in an Out: a graph of
// steps that was checked. It is immutable and safe for concurrent use. An
// [Engine] that has it among its Definitions runs it.
type Definition[In, Out any] struct{ plan *plan }

// AnyDefinition is a [Definition] of any types.
type AnyDefinition interface{ planned() *plan }

func (d *Definition[In, Out]) planned() *plan {
	if d == nil {
		return nil
	}
	return d.plan
}

// Define returns the saga that build declares. name is a name as childkey's
// are; version is at least 1, and grows whenever the steps change or what the
// functions of Map compute, and when a member of what is stored (the input, the
// outputs, the result) is added, renamed or goes: in a process that does not know a
// member, a saga under way that has it is stuck. Definitions of several versions run
// side by side.
//
// A member that is added needs no new version if all processes change at once, or as
// long as nobody sets it and its tag has omitempty or omitzero, so that the same bytes
// are stored. The input's should always have one of them: an input is compared by the
// hash of its bytes, so that with a member more the same input is [ErrKeyReused] for
// whoever runs a key again across the change, whatever the version.
//
// Everything that is wrong with it is in one error, a [*PlanError] whose
// problems name the steps: duplicate names, cycles, foreign values, steps that
// nobody could undo, steps on the wrong side of the pivot, times that are not
// positive, types that JSON cannot carry. Define does no I/O.
func Define[In, Out any](name string, version int, build func(b *Builder[In, Out])) (*Definition[In, Out], error) {
	d := &draft{plan: &plan{
		name: name, version: version, input: formOf[In](),
		undoBudget: DefaultUndoBudget, maxParallel: DefaultMaxParallel,
	}}
	if err := storable[In](); err != nil {
		d.problem(fmt.Errorf("input: %w", err))
	}
	if err := storable[Out](); err != nil {
		d.problem(fmt.Errorf("result: %w", err))
	}
	if build == nil {
		d.problem(errors.New("no function declares it"))
	} else {
		build(&Builder[In, Out]{d})
	}
	switch {
	case d.result != nil:
		d.plan.result = d.result
		for _, i := range d.result.needs {
			d.plan.steps[i].needed = true
		}
	case reflect.TypeFor[Out]() != reflect.TypeFor[struct{}]():
		d.problem(errors.New("there is no Return"))
	}
	p, err := d.finish()
	if err != nil {
		return nil, err
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
func (d *Definition[In, Out]) Name() string { return d.plan.name }

// Version returns the definition's version.
func (d *Definition[In, Out]) Version() int { return d.plan.version }

// UndoBudget returns what [Builder.UndoBudget] set.
func (d *Definition[In, Out]) UndoBudget() time.Duration { return d.plan.undoBudget }

// Plan returns what a journal keeps of the definition.
func (d *Definition[In, Out]) Plan() PlanRecord { return d.plan.record }

// A StepInfo is a step as it was declared.
type StepInfo struct {
	Name                                     string
	Service, Operation                       string
	Function                                 bool   // it is a [StepFunc]
	Undo                                     string // "": none
	Pivot, Retriable, ReadOnly, Irreversible bool
	After                                    []string // the steps that it waits for
	// Attempts is how often the call is tried at most, by its [RetryPolicy]; 0: as often as
	// time allows.
	Attempts   int
	Timeout    time.Duration // of the step; 0: none
	ZeroOutput []byte        // the zero value of its output, as JSON
}

// Steps returns the steps, in the order of their declaration.
func (d *Definition[In, Out]) Steps() []StepInfo {
	p := d.plan
	infos := make([]StepInfo, len(p.steps))
	for i, s := range p.steps {
		infos[i] = StepInfo{
			Name: s.name, Service: s.address.service, Operation: s.address.operation, Function: s.address.shape == function,
			Pivot: s.isPivot, Retriable: s.retriable, ReadOnly: s.readOnly, Irreversible: s.irreversible,
			ZeroOutput: s.zero, Attempts: s.attempts(), Timeout: s.timeout,
		}
		if s.undo != nil {
			infos[i].Undo = s.undo.name()
		}
		for _, b := range s.before {
			infos[i].After = append(infos[i].After, p.steps[b].name)
		}
	}
	return infos
}
