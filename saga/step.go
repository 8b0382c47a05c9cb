package saga

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
)

// A StepRef is a declared step whose input is In and whose output is Out. Its
// methods say more of it and return it.
//
// What a step is decides what happens when another one fails: it is undone
// (Undo), there is nothing to undo (ReadOnly), or it stays (Irreversible).
// Past the Pivot a saga only goes forward: what follows is Retriable.
type StepRef[In, Out any] struct {
	draft *draft
	step  *step
}

// AnyStep is a [StepRef] of any types.
type AnyStep interface{ ref() (*draft, *step) }

func (s *StepRef[In, Out]) ref() (*draft, *step) { return s.draft, s.step }

// Step declares the call of op with in. Its name is "service.operation", with
// op's discriminators in brackets behind it, and its key the child key of these
// under the saga's own: one saga calls an operation twice only with different
// discriminators (contract.Operation.For).
func Step[SagaIn, SagaOut, In, Out any](
	b *Builder[SagaIn, SagaOut], op contract.Operation[In, Out], in Value[In],
) *StepRef[In, Out] {
	s := declare[In, Out](b.draft, address{
		service: op.Service(), operation: op.Name(), discriminators: op.Discriminators(),
		shape: op.Method() + " " + op.Pattern(),
	}, in.node)
	path, err := op.Path()
	if err != nil {
		b.draft.problem(err)
		return s
	}
	s.step.call = operationCall(op, path)
	return s
}

// StepFunc declares a step that runs fn, for what is no operation. name is
// "service.operation", from which the key in [Call] is derived. fn may run any
// number of times, in any process: it makes its effects happen once by passing
// the key on, or by calls of package sdk with its ctx, whose parent key is that
// key.
//
// If fn returns an error, or panics, its effect is unknown. The step is then tried again,
// by default ten times in about five minutes ([RetryPolicy]), and is undone. There are two exceptions:
//
//   - fn says itself what is known: with [Rejected], [NotSent] or [Permanent].
//   - The error speaks for every call that fn made with its ctx: a *retry.Error, an
//     *sdk.FanoutError, an [*Error] of a saga that fn ran, or several of these joined.
//
// Calls are those of packages sdk and retry, and sagas that fn runs. If one of them took
// effect, or may have, fn did: also if fn returns only the error of a later call that was
// refused. Reads (GET) have no effect. Else fn was refused if a call was. A saga that is
// compensated counts as refused; any other one that failed is unknown. An error of a call
// with another ctx, and any other error beside it, makes the outcome unknown. If fn has
// an effect in another way, it must say what is known of it.
func StepFunc[SagaIn, SagaOut, In, Out any](
	b *Builder[SagaIn, SagaOut], name string, in Value[In], fn func(ctx context.Context, call Call[In]) (Out, error),
) *StepRef[In, Out] {
	service, operation, err := splitName(name)
	if err != nil {
		b.draft.problem(err)
	}
	s := declare[In, Out](b.draft, address{service: service, operation: operation, shape: function}, in.node)
	if fn == nil {
		b.draft.problem(fmt.Errorf("step %s: no function", name))
		return s
	}
	s.step.call = functionCall(fn)
	return s
}

// declare adds a step to the draft.
func declare[In, Out any](d *draft, to address, in *node) *StepRef[In, Out] {
	s := &step{
		index: len(d.plan.steps), name: to.name(), address: to, input: in,
		tryTimeout: DefaultTryTimeout, output: formOf[Out](),
	}
	if in == nil || in.draft != d {
		d.problem(fmt.Errorf("%w: the input of step %s is of no saga, of another one, or of a nil function", ErrValue, s.name))
	} else {
		s.data = in.needs
	}
	var zero Out
	err := storable[Out]()
	if err == nil {
		s.zero, err = contract.Encode(zero)
	}
	if err != nil {
		d.problem(fmt.Errorf("step %s: output: %w", s.name, err))
	}
	d.plan.steps = append(d.plan.steps, s)
	return &StepRef[In, Out]{draft: d, step: s}
}

// splitName returns the two names that a function's name is made of.
func splitName(name string) (service, operation string, err error) {
	service, operation, ok := strings.Cut(name, ".")
	if !ok || childkey.CheckName(service) != nil || childkey.CheckName(operation) != nil {
		return name, "", fmt.Errorf("step %q: the name is not service.operation", name)
	}
	return service, operation, nil
}

// name returns the name of a step that calls this address.
func (a address) name() string {
	name := a.service + "." + a.operation
	if len(a.discriminators) == 0 {
		return name
	}
	shown := make([]string, len(a.discriminators))
	for i, d := range a.discriminators {
		shown[i] = d
		if strings.ContainsAny(d, `",[]`) || strconv.Quote(d) != `"`+d+`"` {
			shown[i] = strconv.Quote(d)
		}
	}
	return name + "[" + strings.Join(shown, ",") + "]"
}

// Output is what the step's call returns.
func (s *StepRef[In, Out]) Output() Value[Out] {
	i := s.step.index
	return Value[Out]{&node{draft: s.draft, needs: []int{i}, eval: func(f *facts) any { return f.outputs[i] }}}
}

// An UndoOperation undoes an operation whose input is In and whose output is
// Out: a contract.Operation[contract.Undo[In, Out], Ack] for any Ack.
type UndoOperation[In, Out any] interface {
	Service() string
	Name() string
	Method() string
	Pattern() string
	Discriminators() []string
	Path() (string, error)
	Codec() contract.Codec
	Encode(in contract.Undo[In, Out]) ([]byte, error)
}

// Undo makes op what undoes the step. It gets a key of its own, names the
// step's key in Idempotency-Cancels, and takes over the step's discriminators
// unless it has its own. It is sent if the step's call took effect or may have,
// and must not be refused: a saga whose undo is refused is stuck.
func (s *StepRef[In, Out]) Undo(op UndoOperation[In, Out]) *StepRef[In, Out] {
	if op == nil {
		s.draft.problem(fmt.Errorf("step %s: the undo is nil", s.step.name))
		return s
	}
	to := address{
		service: op.Service(), operation: op.Name(), discriminators: op.Discriminators(),
		shape: op.Method() + " " + op.Pattern(),
	}
	if len(to.discriminators) == 0 {
		to.discriminators = s.step.address.discriminators
	}
	path, err := op.Path()
	if err != nil {
		s.draft.problem(err)
	} else if to.service != s.step.address.service {
		s.draft.problem(fmt.Errorf("step %s: %s cannot undo it: it is of another service", s.step.name, to.name()))
	}
	s.setUndo(to)
	s.step.undoCall = operationUndo(op, path, to)
	return s
}

// UndoFunc makes fn what undoes the step. name is "service.operation", as in
// [StepFunc]. fn returns nil where it undid the step, and [ErrNothingToUndo] where
// there was nothing to undo; both are success. Any other error means what it means of a
// [StepFunc]: an undo is tried again while the outcome is unknown, and a refused one makes
// the saga stuck.
func (s *StepRef[In, Out]) UndoFunc(name string, fn func(ctx context.Context, undo UndoCall[In, Out]) error) *StepRef[In, Out] {
	service, operation, err := splitName(name)
	if err != nil {
		s.draft.problem(err)
	}
	if fn == nil {
		s.draft.problem(fmt.Errorf("step %s: the undo has no function", s.step.name))
	}
	to := address{service: service, operation: operation, discriminators: s.step.address.discriminators, shape: function}
	s.setUndo(to)
	s.step.undoCall = functionUndo(fn, to)
	return s
}

func (s *StepRef[In, Out]) setUndo(to address) {
	if s.step.undo != nil {
		s.draft.problem(fmt.Errorf("step %s: there are two undos", s.step.name))
	}
	s.step.undo = &to
}

// Pivot makes the step the one that decides: before it completed a saga can be
// undone, and after it no more. A saga has at most one. A step without an undo
// that nothing else can fail after is the pivot without being called so.
func (s *StepRef[In, Out]) Pivot() *StepRef[In, Out] {
	s.step.isPivot = true
	return s
}

// Retriable says that the step succeeds in the end, if it is only tried for
// long enough: [Builder.UndoBudget], unless its [RetryPolicy] names Attempts. Without an undo it must come after everything that can fail.
func (s *StepRef[In, Out]) Retriable() *StepRef[In, Out] {
	s.step.retriable = true
	return s
}

// ReadOnly says that the step has no effect.
func (s *StepRef[In, Out]) ReadOnly() *StepRef[In, Out] {
	s.step.readOnly = true
	return s
}

// Irreversible says that the step's effect may stay when the saga is undone.
func (s *StepRef[In, Out]) Irreversible() *StepRef[In, Out] {
	s.step.irreversible = true
	return s
}

// After makes the step wait for others whose outputs it does not need.
func (s *StepRef[In, Out]) After(steps ...AnyStep) *StepRef[In, Out] {
	for _, other := range steps {
		if other == nil {
			s.draft.problem(fmt.Errorf("%w: step %s: After nil", ErrValue, s.step.name))
			continue
		}
		d, o := other.ref()
		if d != s.draft {
			s.draft.problem(fmt.Errorf("%w: step %s: After a step of another saga", ErrValue, s.step.name))
			continue
		}
		s.step.after = append(s.step.after, o.index)
	}
	return s
}

// TryTimeout bounds one try: one call of the client with its attempts, or one
// run of the function; of the undo too. The default is [DefaultTryTimeout].
func (s *StepRef[In, Out]) TryTimeout(d time.Duration) *StepRef[In, Out] {
	s.draft.duration("step "+s.step.name+": TryTimeout", d)
	s.step.tryTimeout = d
	return s
}

// Timeout bounds all tries of the step, from when it could first begin. It cuts off the
// try that is running then. Past it the step has failed, as after its last attempt
// ([RetryPolicy]), and nobody tries to find out what became of it: the step is undone if
// it may have had an effect. By default the attempts bound the step.
func (s *StepRef[In, Out]) Timeout(d time.Duration) *StepRef[In, Out] {
	s.draft.duration("step "+s.step.name+": Timeout", d)
	s.step.timeout = d
	return s
}

// Retention declares how long the callee remembers a key. [Define] and [Open] refuse a
// step that can be tried for longer, by its Timeout or its [RetryPolicy], or whose undo
// can. A call whose outcome is unknown is not sent again when it is that old: then the
// saga is stuck. The default is that the callee judges by itself, as those do that this
// library guards. [Builder.CheckpointEdges] needs it of every step, for as long as the
// whole saga can take, and says what it means of a function's.
func (s *StepRef[In, Out]) Retention(d time.Duration) *StepRef[In, Out] {
	s.draft.duration("step "+s.step.name+": Retention", d)
	s.step.retention = d
	return s
}
