package contract

import (
	"errors"
	"fmt"
	"slices"
)

// Undo is the input of an operation that undoes a forward operation whose
// input is In and whose output is Out. The forward key travels beside it, in
// the Idempotency-Cancels header.
type Undo[In, Out any] struct {
	// Input is what the forward call was given.
	Input In `json:"input"`
	// Output is what the forward call returned; nil where its outcome is
	// unknown or its answer is gone.
	Output *Out `json:"output,omitempty"`
}

// An UndoOperation undoes an operation whose input is In and whose output is Out: an Operation[Undo[In, Out], Ack] for
// any Ack. Nothing else implements it.
type UndoOperation[In, Out any] interface {
	Service() string
	Name() string
	Method() string
	Pattern() string
	Discriminators() []string
	Path() (string, error)
	Codec() Codec
	Encode(in Undo[In, Out]) ([]byte, error)
	Err() error

	// checkUndo returns what is wrong with it as the undo of an operation with this address.
	checkUndo(of address) error
	// completed returns it, an UndoOperation[In, Out], with what its own address lacks.
	completed(from address) any
}

// An address is the part of an operation that does not depend on its types.
type address struct {
	service, name  string
	segments       []segment
	at             []param
	discriminators []string
}

func (op Operation[In, Out]) address() address {
	return address{op.service, op.name, op.segments, op.at, op.discriminators}
}

// UndoneBy returns the operation with undo as what undoes its calls:
//
//	var Reserve = contract.Post[Line, Hold]("inventory", "reserve", "/reservations").UndoneBy(Release)
//
// A fan-out (sdk.Fanout.Undo), sdk.CallUndo and the steps of a saga send it. undo belongs to the same service and has
// another name. Where it has no discriminators it takes those of the call that it undoes, and for a wildcard of its path
// that At has not set the value of the call's wildcard with the same name. An undo that breaks these rules, or is nil or
// invalid, is an error; see [Operation.Err]. A later UndoneBy replaces an earlier one.
func (op Operation[In, Out]) UndoneBy(undo UndoOperation[In, Out]) Operation[In, Out] {
	if op.err != nil || op.method == "" {
		return op
	}
	if undo == nil {
		return op.refuse(errors.New("UndoneBy: the undo is nil"))
	}
	if err := undo.checkUndo(op.address()); err != nil {
		return op.refuse(fmt.Errorf("undone by %s %s: %w", undo.Service(), undo.Name(), err))
	}
	op.undo = undo
	return op
}

// Undo returns what undoes this call, with the discriminators and the path of the call, or nil if [Operation.UndoneBy]
// named nothing.
func (op Operation[In, Out]) Undo() UndoOperation[In, Out] {
	if op.undo == nil {
		return nil
	}
	undo, _ := op.undo.completed(op.address()).(UndoOperation[In, Out])
	return undo
}

func (op Operation[In, Out]) checkUndo(of address) error {
	switch {
	case op.Err() != nil:
		return innerError{op.Err()}
	case op.service != of.service:
		return fmt.Errorf("it is of another service, and must be of %s", of.service)
	case op.name == of.name:
		return errors.New("it has the same name, so its calls would have the same key")
	}
	for _, s := range op.segments {
		if _, set := op.value(s.wildcard); s.wildcard != "" && !set && !of.has(s) {
			return fmt.Errorf("path %q: {%s} is neither set nor in the path of what it undoes", op.path, s.wildcard)
		}
	}
	return nil
}

// has reports whether a call of the address can give its value to the wildcard of s.
func (a address) has(s segment) bool {
	return slices.ContainsFunc(a.segments, func(own segment) bool {
		return own.wildcard == s.wildcard && (s.rest || !own.rest)
	})
}

func (op Operation[In, Out]) completed(from address) any {
	if len(op.discriminators) == 0 {
		op.discriminators = from.discriminators
	}
	for _, s := range op.segments {
		if _, set := op.value(s.wildcard); s.wildcard == "" || set {
			continue
		}
		if i := slices.IndexFunc(from.at, func(p param) bool { return p.name == s.wildcard }); i >= 0 {
			op.at = append(slices.Clip(op.at), from.at[i])
		}
	}
	return op
}
