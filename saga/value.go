package saga

// A Value is something that a saga will know: its input, the output of a step,
// or what pure functions make of them ([Map], [Map2], [Map3]). A step whose
// input is made from the output of another one runs after it.
//
// Values exist while a saga is defined; nothing is computed before it runs.
// The zero Value belongs to no saga and is refused by [Define].
type Value[T any] struct{ node *node }

// A node is a Value without its type.
type node struct {
	draft *draft // whose value it is
	input bool   // it is made from the saga's input
	needs []int  // indexes of the steps whose outputs it is made from
	eval  func(*facts) any
}

// facts are what a run of a saga knows so far, as far as somebody asks. They are
// decoded from what the journal has, in the process that started the saga as in
// any other, and each time anew, so that all of them compute the same.
type facts struct {
	input   any
	outputs []any // by index of the step; nil where there is none yet
}

// Map is what fn makes of a value. fn must be pure: it is called again after a
// crash and for every undo, in any process that drives the saga, and what it
// returns must be the same, since it becomes the body of a call that has a key.
// It must not change what it is given. To change what it computes is to change
// the plan: give the definition a new version.
func Map[A, T any](a Value[A], fn func(A) T) Value[T] {
	if fn == nil {
		return Value[T]{}
	}
	n := join(a.node)
	if n == nil {
		return Value[T]{}
	}
	n.eval = func(f *facts) any { return fn(as[A](a.node.eval(f))) }
	return Value[T]{n}
}

// Map2 is [Map] of two values.
func Map2[A, B, T any](a Value[A], b Value[B], fn func(A, B) T) Value[T] {
	n := join(a.node, b.node)
	if n == nil || fn == nil {
		return Value[T]{}
	}
	n.eval = func(f *facts) any { return fn(as[A](a.node.eval(f)), as[B](b.node.eval(f))) }
	return Value[T]{n}
}

// Map3 is [Map] of three values.
func Map3[A, B, C, T any](a Value[A], b Value[B], c Value[C], fn func(A, B, C) T) Value[T] {
	n := join(a.node, b.node, c.node)
	if n == nil || fn == nil {
		return Value[T]{}
	}
	n.eval = func(f *facts) any {
		return fn(as[A](a.node.eval(f)), as[B](b.node.eval(f)), as[C](c.node.eval(f)))
	}
	return Value[T]{n}
}

// join returns a node that needs what all of from need; nil if one of them is
// of no saga, or they are of different ones.
func join(from ...*node) *node {
	joined := &node{}
	for _, n := range from {
		if n == nil || joined.draft != nil && joined.draft != n.draft {
			return nil
		}
		joined.draft = n.draft
		joined.input = joined.input || n.input
		joined.needs = append(joined.needs, n.needs...)
	}
	return joined
}

// as returns x as a T; a nil interface is the zero T.
func as[T any](x any) T {
	v, _ := x.(T)
	return v
}
