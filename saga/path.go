package saga

import (
	"fmt"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga/internal/graph"
)

// A use is an operation as a step calls it.
type use[In, Out any] struct {
	op contract.Operation[In, Out]
	at []string // the wildcards whose values the saga computes, in the order of At
}

// A filled input is that of a step whose path has computed values, in the order of [use].at.
type filled struct {
	input  any
	values []string
}

// inputOf returns the input proper of what the step's node has computed.
func inputOf[In any](computed any) In {
	if f, ok := computed.(filled); ok {
		return as[In](f.input)
	}
	return as[In](computed)
}

// fill returns the input of one call, and the operation with its path.
func (u *use[In, Out]) fill(computed any) (In, contract.Operation[In, Out]) {
	op := u.op
	f, _ := computed.(filled)
	for i, wildcard := range u.at {
		op = op.At(wildcard, f.values[i])
	}
	return inputOf[In](computed), op
}

// At sets the wildcard {name} of the path of the step's operation to v, which the saga computes, such as an ID that an
// earlier step returned. The step runs after those that v needs. A wildcard of the same name in the path of its undo has
// the same value, unless that has one of its own.
//
// The key of the call does not depend on the path. A value that cannot be a segment of a path, such as an empty one, is
// found when the step would be called. Then nothing is sent, and the step has failed with contract.ErrInvalid. Define returns
// an [ErrPlan] if the path lacks the wildcard, if [contract.Operation.At] has set it already, or if the step is a function.
func (s *StepRef[In, Out]) At(wildcard string, v Value[string]) *StepRef[In, Out] {
	switch {
	case s.use == nil:
		s.draft.Problem(fmt.Errorf("step %s: At: the step is no operation, or an invalid one", s.step.Name))
		return s
	case v.node == nil || v.node.Draft != s.draft:
		s.draft.Problem(fmt.Errorf("%w: step %s: the value of {%s} is no value of this plan, or one of a nil function", ErrValue, s.step.Name, wildcard))
		return s
	case s.step.Input == nil:
		return s // which declare has found
	}
	s.use.at = append(s.use.at, wildcard)
	s.step.Input = fillNode(s.step.Input, v.node)
	s.step.Data = append(s.step.Data, v.node.Needs...)
	return s
}

// fillNode returns the node of input with one more computed value.
func fillNode(input, value *graph.Node) *graph.Node {
	n := join(input, value)
	if n == nil {
		return input // of another saga, which is a problem already
	}
	n.Eval = func(f *graph.Facts) any {
		computed := input.Eval(f)
		before, ok := computed.(filled)
		if !ok {
			before.input = computed
		}
		return filled{before.input, append(before.values[:len(before.values):len(before.values)], as[string](value.Eval(f)))}
	}
	return n
}

// encode returns the path and the body of one call.
func (u *use[In, Out]) encode(computed any) (path string, body []byte, err error) {
	in, op := u.fill(computed)
	if path, err = op.Path(); err == nil {
		body, err = op.Encode(in)
	}
	return path, body, err
}

// checkPaths finds a wildcard that has no value, or that is not there.
func (s *StepRef[In, Out]) checkPaths() {
	values := make([]string, len(s.use.at))
	for i := range values {
		values[i] = "x"
	}
	_, op := s.use.fill(filled{values: values})
	_, err := op.Path()
	if undo := op.Undo(); err == nil && undo != nil && s.step.UndoCall != nil {
		_, err = undo.Path()
	}
	if err != nil {
		s.draft.Problem(err)
	}
}
