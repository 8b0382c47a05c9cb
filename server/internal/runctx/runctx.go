// Package runctx carries a run and its transaction in the ctx of its handler. A guard's engine puts the
// run there, a store puts the transaction there, and package store finds both: none imports another for this.
package runctx

import "context"

// A Run is the part of a run that package store calls.
type Run interface {
	// OnComplete registers fn for the transaction that completes the run.
	OnComplete(fn func(context.Context) error) error
}

type (
	key   struct{}
	txKey struct{}
)

// NewContext returns ctx carrying run.
func NewContext(ctx context.Context, run Run) context.Context {
	return context.WithValue(ctx, key{}, run)
}

// From returns the run that ctx carries, or nil.
func From(ctx context.Context) Run {
	run, _ := ctx.Value(key{}).(Run)
	return run
}

// NewTxContext returns ctx carrying the handle of a transaction.
func NewTxContext(ctx context.Context, handle any) context.Context {
	return context.WithValue(ctx, txKey{}, handle)
}

// TxFrom returns the handle of the transaction that ctx carries, or nil.
func TxFrom(ctx context.Context) any { return ctx.Value(txKey{}) }

// Leave returns ctx without the run and the transaction that it carries. Work that begins inside a run and is
// settled apart from it has such a ctx: what it writes must not depend on the end of that run.
func Leave(ctx context.Context) context.Context {
	if From(ctx) != nil {
		ctx = context.WithValue(ctx, key{}, nil)
	}
	if TxFrom(ctx) != nil {
		ctx = NewTxContext(ctx, nil)
	}
	return ctx
}
