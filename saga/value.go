package saga

import (
	"fmt"
	"slices"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga/internal/graph"
)

// A Value is something that a saga will know: its input, the output of a step,
// or what pure functions make of them ([Map], [Map2], [Map3]). A step whose
// input is made from the output of another one runs after it.
//
// Values exist while a saga is defined; nothing is computed before it runs.
// The zero Value belongs to no saga and is refused by [Define].
type Value[T any] struct{ node *graph.Node }

// Map is the value that fn computes from another value. To change its results is to
// change the plan: give the definition a new version.
//
// fn must be pure, and must not change its argument. It is called again after a crash and for
// every undo, in any process that executes the saga. Its result must be the same each time: it
// becomes the body of a call that has a key.
func Map[A, T any](a Value[A], fn func(A) T) Value[T] {
	if fn == nil {
		return Value[T]{}
	}
	n := join(a.node)
	if n == nil {
		return Value[T]{}
	}
	n.Eval = func(f *graph.Facts) any { return fn(as[A](a.node.Eval(f))) }
	return Value[T]{n}
}

// Map2 is [Map] of two values.
func Map2[A, B, T any](a Value[A], b Value[B], fn func(A, B) T) Value[T] {
	n := join(a.node, b.node)
	if n == nil || fn == nil {
		return Value[T]{}
	}
	n.Eval = func(f *graph.Facts) any { return fn(as[A](a.node.Eval(f)), as[B](b.node.Eval(f))) }
	return Value[T]{n}
}

// Map3 is [Map] of three values.
func Map3[A, B, C, T any](a Value[A], b Value[B], c Value[C], fn func(A, B, C) T) Value[T] {
	n := join(a.node, b.node, c.node)
	if n == nil || fn == nil {
		return Value[T]{}
	}
	n.Eval = func(f *graph.Facts) any {
		return fn(as[A](a.node.Eval(f)), as[B](b.node.Eval(f)), as[C](c.node.Eval(f)))
	}
	return Value[T]{n}
}

// Const is a value that is known now. It is kept as JSON, so that nobody changes it.
func Const[SagaIn, SagaOut, T any](b *Builder[SagaIn, SagaOut], v T) Value[T] {
	form := formOf[T]()
	data, err := contract.Encode(v)
	if err == nil {
		_, err = form.Decode(data)
	}
	if err != nil {
		b.draft.Problem(fmt.Errorf("%w: a constant: %w", ErrValue, err))
		return Value[T]{}
	}
	return Value[T]{&graph.Node{Draft: b.draft, Eval: func(*graph.Facts) any {
		v, _ := form.Decode(data) // as above
		return v
	}}}
}

// join returns a node that needs what all of from need; nil if one of them is
// of no saga, or they are of different ones.
func join(from ...*graph.Node) *graph.Node {
	joined := &graph.Node{}
	for _, n := range from {
		if n == nil || joined.Draft != nil && joined.Draft != n.Draft {
			return nil
		}
		joined.Draft = n.Draft
		joined.Input = joined.Input || n.Input
		joined.Needs = append(joined.Needs, n.Needs...)
	}
	joined.Missing = func(skipped func(int) bool) bool {
		return slices.ContainsFunc(from, func(n *graph.Node) bool { return n.IsMissing(skipped) })
	}
	return joined
}

// as returns x as a T; a nil interface is the zero T.
func as[T any](x any) T {
	v, _ := x.(T)
	return v
}
