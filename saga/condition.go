package saga

import (
	"fmt"

	"github.com/fanonce/fanonce/saga/internal/graph"
)

// When makes the step run only if v is true. Else it is skipped: it has no effect and needs no undo, and the saga goes on
// without it. The step is decided on once the steps that it waits for have ended, and that is not decided anew.
//
// A step that needs the output of a skipped step is skipped, too, unless [StepRef.Or] has another value. A step that only
// waits for it ([StepRef.After]) runs. A step that can be skipped is not the pivot, and the result does not need it;
// [Define] refuses both.
//
// It is written before it begins, as the pivot is. That costs a write only if no step comes before it. If a function of v
// panics, the step has failed, and nothing was sent.
func (s *StepRef[In, Out]) When(v Value[bool]) *StepRef[In, Out] {
	switch {
	case v.node == nil || v.node.Draft != s.draft:
		s.draft.Problem(fmt.Errorf("%w: step %s: When: the value is no value of this plan, or one of a nil function", ErrValue, s.step.Name))
	case s.step.When != nil:
		s.draft.Problem(fmt.Errorf("step %s: When was called twice; join the conditions with Map2", s.step.Name))
	default:
		s.step.When = v.node
		s.step.Data = append(s.step.Data, v.node.Needs...)
	}
	return s
}

// Optional makes the saga go on without the step if it is refused, or surely was not sent in all its attempts. It is
// skipped then, as after [StepRef.When]. A step that may have had an effect is not skipped: the saga fails, as without
// Optional.
func (s *StepRef[In, Out]) Optional() *StepRef[In, Out] {
	s.step.Optional = true
	return s
}

// Or is the step's output, or v if the step was skipped.
func (s *StepRef[In, Out]) Or(v Value[Out]) Value[Out] {
	return orElse(s.step.Index, s.Output(), v)
}

// orElse is the output of the step at that index, or v if it was skipped.
func orElse[T any](i int, output, v Value[T]) Value[T] {
	n := join(output.node, v.node)
	if n == nil {
		return Value[T]{}
	}
	n.Missing = func(skipped func(int) bool) bool { return skipped(i) && v.node.IsMissing(skipped) }
	n.Eval = func(f *graph.Facts) any {
		if f.Skipped != nil && f.Skipped[i] {
			return v.node.Eval(f)
		}
		return output.node.Eval(f)
	}
	return Value[T]{n}
}
