package saga

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga/internal/graph"
)

// A StepRef is a declared step whose input is In and whose output is Out. Its
// methods say more of it and return it.
//
// The methods decide what happens when another step fails. The step is undone (Undo), has
// nothing to undo (ReadOnly), or stays (Irreversible). Past the Pivot a saga only goes
// forward: all later steps are Retriable.
type StepRef[In, Out any] struct {
	draft *graph.Draft
	step  *graph.Step
	use   *use[In, Out] // of its operation; nil: the step is a function
}

// AnyStep is a [StepRef] of any types.
type AnyStep interface {
	ref() (*graph.Draft, *graph.Step)
}

func (s *StepRef[In, Out]) ref() (*graph.Draft, *graph.Step) {
	if s == nil {
		return nil, nil
	}
	return s.draft, s.step
}

// Step declares the call of op with in. The step's name is "service.operation". If op has
// discriminators, they follow in brackets. The key of the call is the child key of these
// names under the saga's own key. So one saga calls an operation twice only with different
// discriminators (contract.Operation.For). What undoes op (contract.Operation.UndoneBy) undoes the
// step, unless the step says otherwise: Undo and UndoFunc name another undo; ReadOnly, Irreversible
// and Pivot say that there is none.
func Step[SagaIn, SagaOut, In, Out any](
	b *Builder[SagaIn, SagaOut], op contract.Operation[In, Out], in Value[In],
) *StepRef[In, Out] {
	s := declare[In, Out](b.draft, addressOf(op, op.Discriminators()), in.node)
	s.calls(op)
	return s
}

// addressOf returns where op is called, with those discriminators.
func addressOf(op interface {
	Service() string
	Name() string
	Method() string
	Pattern() string
}, discriminators []string) graph.Address {
	return graph.Address{
		Service: op.Service(), Operation: op.Name(), Discriminators: discriminators, Shape: op.Method() + " " + op.Pattern(),
	}
}

// calls makes op the operation of the step.
func (s *StepRef[In, Out]) calls(op contract.Operation[In, Out]) {
	if err := op.Err(); err != nil {
		s.draft.Problem(err)
		return
	}
	s.use = &use[In, Out]{op: op}
	s.step.Call = operationCall(s.use)
	s.step.Sends = func(input any) ([]byte, error) {
		path, body, err := s.use.encode(input)
		return append([]byte(path+"\n"), body...), err
	}
	if op.Undo() != nil {
		s.undoByOperation(true)
	}
	s.draft.Later(s.checkPaths)
}

// StepFunc declares a step that runs fn. Use it for a step without an operation. The name is
// "service.operation"; the key in [Call] is derived from it. fn may run any number of times, in
// any process. So it must make its effects happen once. It passes the key on, or makes calls of
// package sdk with its ctx, whose parent key is that key.
//
// If fn returns an error, or panics, its effect is unknown. The step is then tried again,
// by default ten times in about five minutes ([RetryPolicy]), and is undone. There are two exceptions:
//
//   - fn says itself what is known: with [Rejected], [NotSent] or [Permanent].
//   - The error speaks for every call that fn made with its ctx: a *retry.Error, an
//     *sdk.FanoutError, an [*Error] of a saga that fn ran, or several of these joined.
//
// Calls are those of packages sdk and retry, and sagas that fn runs. Reads (GET) have no
// effect. If one of the calls took effect, or may have, fn did too. This holds even if fn
// returns only the error of a later call that was refused. Otherwise fn was refused if one of
// its calls was.
//
// A saga that is compensated counts as refused. Any other saga that failed is unknown. The
// outcome of fn is unknown, too, if its error has a part of another kind, or one about a call
// with another ctx. If fn has an effect in another way, it must say what is known of it.
//
// fn returns soon once its ctx ends. Ten seconds after the deadline of its attempt it is given up ([EventHung]): the
// attempt is unknown, and the saga goes on as after any other. fn goes on, too. It is not run again in this process, nor
// undone there, before it has returned; if it does not, the saga gets stuck on it.
func StepFunc[SagaIn, SagaOut, In, Out any](
	b *Builder[SagaIn, SagaOut], name string, in Value[In], fn func(ctx context.Context, call Call[In]) (Out, error),
) *StepRef[In, Out] {
	service, operation, err := splitName(name)
	if err != nil {
		b.draft.Problem(err)
	}
	s := declare[In, Out](b.draft, graph.Address{Service: service, Operation: operation, Shape: graph.Function}, in.node)
	s.runs(fn)
	return s
}

// runs makes fn the function of the step.
func (s *StepRef[In, Out]) runs(fn func(ctx context.Context, call Call[In]) (Out, error)) {
	if fn == nil {
		s.draft.Problem(fmt.Errorf("step %s: the function is nil", s.step.Name))
		return
	}
	s.step.Call = functionCall(fn)
	s.step.Sends = func(input any) ([]byte, error) { return contract.Encode(inputOf[In](input)) }
}

// declare adds a step to the draft.
func declare[In, Out any](d *graph.Draft, to graph.Address, in *graph.Node) *StepRef[In, Out] {
	s := &graph.Step{
		Index: len(d.Plan.Steps), Name: to.Name(), Address: to, Input: in,
		AttemptTimeout: DefaultAttemptTimeout, Output: formOf[Out](),
	}
	if in == nil || in.Draft != d {
		d.Problem(fmt.Errorf("%w: the input of step %s is no value of this plan, or one of a nil function", ErrValue, s.Name))
	} else {
		s.Data = in.Needs
	}
	var zero Out
	err := contract.CheckType[Out]()
	if err == nil {
		s.Zero, err = contract.Encode(zero)
	}
	if err != nil {
		d.Problem(fmt.Errorf("step %s: output: %w", s.Name, err))
	}
	d.Plan.Steps = append(d.Plan.Steps, s)
	return &StepRef[In, Out]{draft: d, step: s}
}

// splitName returns the two names that a function's name is made of.
func splitName(name string) (service, operation string, err error) {
	service, operation, ok := strings.Cut(name, ".")
	if !ok || childkey.CheckName(service) != nil || childkey.CheckName(operation) != nil {
		return name, "", fmt.Errorf("step %q: the name must be service.operation, such as payment.charge", name)
	}
	return service, operation, nil
}

// Output is what the step's call returns.
func (s *StepRef[In, Out]) Output() Value[Out] {
	i := s.step.Index
	return Value[Out]{&graph.Node{Draft: s.draft, Needs: []int{i}, Eval: func(f *graph.Facts) any { return f.Outputs[i] }}}
}

// Undo makes op what undoes the step, instead of what undoes the step's operation. It gets a key of its own, names the
// step's key in Idempotency-Cancels, and takes over the step's discriminators
// unless it has its own. It is sent if the step's call took effect or may have,
// and must not be refused: a saga whose undo is refused is stuck.
func (s *StepRef[In, Out]) Undo(op contract.UndoOperation[In, Out]) *StepRef[In, Out] {
	if op == nil {
		s.draft.Problem(fmt.Errorf("step %s: the undo is nil", s.step.Name))
		return s
	}
	if op.Service() != s.step.Address.Service {
		s.draft.Problem(fmt.Errorf("step %s: %s.%s cannot undo it: it is of another service", s.step.Name, op.Service(), op.Name()))
		return s
	}
	if s.use != nil {
		s.use.op = s.use.op.UndoneBy(op)
		s.undoByOperation(false)
		return s
	}
	s.undoAt(op, false, func(any) contract.UndoOperation[In, Out] { return op })
	if _, err := op.Path(); err != nil {
		s.draft.Problem(err)
	}
	return s
}

// undoByOperation makes the undo of the step's operation the step's. inherited says that the operation itself names it, so
// the step may say otherwise.
func (s *StepRef[In, Out]) undoByOperation(inherited bool) {
	undo := s.use.op.Undo()
	if undo == nil {
		return // the operation is invalid now, which checkPaths finds
	}
	u := s.use
	s.undoAt(undo, inherited, func(input any) contract.UndoOperation[In, Out] {
		_, op := u.fill(input)
		return op.Undo()
	})
}

// undoAt makes what undo returns the step's undo. op has its address.
func (s *StepRef[In, Out]) undoAt(op contract.UndoOperation[In, Out], inherited bool, undo func(any) contract.UndoOperation[In, Out]) {
	to := addressOf(op, op.Discriminators())
	switch {
	case len(to.Discriminators) == 0:
		to.Discriminators = s.step.Address.Discriminators
	case s.step.IsEach:
		to.Discriminators = append(to.Discriminators, graph.AllItems)
	}
	s.setUndo(to)
	s.step.InheritsUndo = inherited
	s.step.UndoCall = operationUndo(undo, to)
}

// UndoFunc makes fn the undo of the step. The name is "service.operation", as in
// [StepFunc]. fn returns nil if it undid the step, and [ErrNothingToUndo] if there was
// nothing to undo. Both are success. Any other error means the same as from a
// [StepFunc]. While the outcome is unknown, the undo is tried again. A refused undo makes
// the saga stuck.
func (s *StepRef[In, Out]) UndoFunc(name string, fn func(ctx context.Context, undo UndoCall[In, Out]) error) *StepRef[In, Out] {
	service, operation, err := splitName(name)
	if err != nil {
		s.draft.Problem(err)
	}
	if fn == nil {
		s.draft.Problem(fmt.Errorf("step %s: the function of the undo is nil", s.step.Name))
	}
	to := graph.Address{Service: service, Operation: operation, Discriminators: s.step.Address.Discriminators, Shape: graph.Function}
	s.setUndo(to)
	s.step.UndoCall = functionUndo(fn)
	return s
}

func (s *StepRef[In, Out]) setUndo(to graph.Address) {
	if s.step.Undo != nil && !s.step.InheritsUndo {
		s.draft.Problem(fmt.Errorf("step %s: there are two undos", s.step.Name))
	}
	s.step.Undo, s.step.InheritsUndo = &to, false
}

// Pivot makes the step the one that decides: before it completed a saga can be
// undone, and after it no more. A saga has at most one. A step without an undo
// that nothing else can fail after is the pivot without being called so.
func (s *StepRef[In, Out]) Pivot() *StepRef[In, Out] {
	s.step.IsPivot = true
	return s
}

// Retriable says that the step succeeds in the end, if it is only tried for
// long enough: [Builder.UndoBudget], unless its [RetryPolicy] names Attempts. Without an undo it must come after everything that can fail.
func (s *StepRef[In, Out]) Retriable() *StepRef[In, Out] {
	s.step.Retriable = true
	return s
}

// ReadOnly says that the step has no effect.
func (s *StepRef[In, Out]) ReadOnly() *StepRef[In, Out] {
	s.step.ReadOnly = true
	return s
}

// Irreversible says that the step's effect may stay when the saga is undone.
func (s *StepRef[In, Out]) Irreversible() *StepRef[In, Out] {
	s.step.Irreversible = true
	return s
}

// After makes the step wait for others whose outputs it does not need.
func (s *StepRef[In, Out]) After(steps ...AnyStep) *StepRef[In, Out] {
	for _, other := range steps {
		if other == nil {
			s.draft.Problem(fmt.Errorf("%w: step %s: After: the step is nil", ErrValue, s.step.Name))
			continue
		}
		d, o := other.ref()
		if d != s.draft {
			s.draft.Problem(fmt.Errorf("%w: step %s: After: the step is one of another plan", ErrValue, s.step.Name))
			continue
		}
		s.step.After = append(s.step.After, o.Index)
	}
	return s
}

// AttemptTimeout bounds one attempt: one call of the client with its attempts, or one
// run of the function; of the undo too. The default is [DefaultAttemptTimeout]. A longer one goes
// before the Timeout of the client.
func (s *StepRef[In, Out]) AttemptTimeout(d time.Duration) *StepRef[In, Out] {
	s.draft.Duration("step "+s.step.Name+": AttemptTimeout", d)
	s.step.AttemptTimeout = d
	return s
}

// Timeout bounds all attempts of the step, from the time when it could first begin. It cuts off
// the attempt that is running then. After that time the step has failed, as after its last
// attempt ([RetryPolicy]). The engine does not try to find out its outcome: the step is undone if
// it may have had an effect. By default the attempts bound the step.
//
// A verb that takes the saga from its owner ([Operator.Retry], [Operator.Cancel]) begins the time
// anew.
func (s *StepRef[In, Out]) Timeout(d time.Duration) *StepRef[In, Out] {
	s.draft.Duration("step "+s.step.Name+": Timeout", d)
	s.step.Timeout = d
	return s
}

// Retention declares how long the callee remembers a key. [Define] and [Open] refuse a
// step that can be tried for longer, by its Timeout or its [RetryPolicy], or whose undo
// can. A call whose outcome is unknown is not sent again when it is that old: then the
// saga is stuck. The default is that the callee judges by itself, as those do that this library
// guards.
func (s *StepRef[In, Out]) Retention(d time.Duration) *StepRef[In, Out] {
	s.draft.Duration("step "+s.step.Name+": Retention", d)
	s.step.Retention = d
	return s
}
