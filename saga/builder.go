package saga

import (
	"fmt"
	"time"
)

// The defaults of a saga.
const (
	DefaultAttempts    = 10
	DefaultUndoBudget  = 24 * time.Hour
	DefaultTryTimeout  = time.Minute
	DefaultMaxParallel = 16
)

// MaxSteps is how many steps one saga can have.
const MaxSteps = 256

// A Builder takes the declarations of a saga whose input is In and whose
// result is Out; [Define] passes it to its function. It is of no use after that.
type Builder[In, Out any] struct{ draft *draft }

// A draft is a plan that is being declared, and what is wrong with it so far.
type draft struct {
	plan     *plan
	problems []error
	result   *node
}

func (d *draft) problem(err error) { d.problems = append(d.problems, err) }

// positive notes a problem unless v is above zero.
func (d *draft) positive(field string, v int64, text any) {
	if v <= 0 {
		d.problem(fmt.Errorf("%s: %v is not positive", field, text))
	}
}

// duration notes a problem unless v is above zero and at most MaxDuration.
func (d *draft) duration(field string, v time.Duration) {
	d.positive(field, int64(v), v)
	if v > MaxDuration {
		d.problem(fmt.Errorf("%s: %w", field, tooLong(v)))
	}
}

// Input is the saga's input.
func (b *Builder[In, Out]) Input() Value[In] {
	return Value[In]{&node{draft: b.draft, input: true, eval: func(f *facts) any { return f.input }}}
}

// Timeout is how long a saga may take to pass its pivot. Past it the saga is
// compensated. The time counts from when the first engine got the saga, so a saga that
// waits for an engine loses none of it. By default a saga has no time of its own: the
// policies of its steps bound it ([StepRef.Retry], [StepRef.Timeout]). Timeout cuts off
// no call.
func (b *Builder[In, Out]) Timeout(d time.Duration) {
	b.draft.duration("Timeout", d)
	b.draft.plan.timeout = d
}

// UndoBudget is how long what must succeed is tried before the saga is stuck:
// undos, and past the pivot the [StepRef.Retriable] steps. A Retriable step before the
// pivot is tried for as long, and then the saga is compensated. The default is
// [DefaultUndoBudget].
func (b *Builder[In, Out]) UndoBudget(d time.Duration) {
	b.draft.duration("UndoBudget", d)
	b.draft.plan.undoBudget = d
}

// MaxParallel is how many calls of one saga are under way at a time; the
// default is [DefaultMaxParallel].
func (b *Builder[In, Out]) MaxParallel(n int) {
	b.draft.positive("MaxParallel", int64(n), n)
	b.draft.plan.maxParallel = n
}

// CheckpointEdges makes the journal keep only the beginning and the end of a
// saga that goes well, and that its pivot begins. These are three commits however many
// steps there are, and two without a pivot. After a crash
// every step is sent again and its callee replays the answer, so every step
// must have a callee that remembers, which it declares by [StepRef.Retention].
// The function of a [StepFunc] declares by it that it passes its key on to such a
// callee, as in a call that is no HTTP, and that its output follows from its input and
// the callee's answer alone: run again it must return the same, for the steps
// behind it may have been sent before. Whatever does not go well is kept as ever.
func (b *Builder[In, Out]) CheckpointEdges() { b.draft.plan.edges = true }

// Return makes v the saga's result. A saga without it returns the zero Out,
// which only a struct{} may be.
func Return[In, Out any](b *Builder[In, Out], v Value[Out]) {
	switch {
	case b.draft.result != nil:
		b.draft.problem(fmt.Errorf("%w: Return was called twice", ErrValue))
	case v.node == nil || v.node.draft != b.draft:
		b.draft.problem(fmt.Errorf("%w: the result is of no saga, of another one, or of a nil function", ErrValue))
	default:
		b.draft.result = v.node
	}
}
