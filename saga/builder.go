package saga

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/saga/internal/graph"
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
