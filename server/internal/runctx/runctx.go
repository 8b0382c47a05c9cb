// Package runctx carries a run in the ctx of its handler. A guard's engine puts the
// run there, and package store finds it: neither imports the other for this.
package runctx

import "context"

// A Run is the part of a run that package store calls.
type Run interface {
	// OnComplete registers fn for the transaction that completes the run.
	OnComplete(fn func(context.Context) error) error
}

type key struct{}

// NewContext returns ctx carrying run.
func NewContext(ctx context.Context, run Run) context.Context {
	return context.WithValue(ctx, key{}, run)
}

// From returns the run that ctx carries, or nil.
func From(ctx context.Context) Run {
	run, _ := ctx.Value(key{}).(Run)
	return run
}
