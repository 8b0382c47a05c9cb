package server

import "github.com/fanonce/fanonce/server/store"

// The names of package store that handlers and their callers use.
type (
	// Effect says where a route's effects go; [store.Effect] has the table.
	Effect = store.Effect
	// Fate is what [Barrier] tells an undo about the forward call.
	Fate = store.Fate
	// State is the state of a key.
	State = store.State
	// RefusedError is returned by [Guard.Do] for a call that did not run
	// and has no answer.
	RefusedError = store.RefusedError
)

// The classes of an [Effect].
const (
	// Transactional means that every effect is in the store's own database, in
	// the transaction that the handler gets.
	Transactional = store.Transactional
	// Keyed means that effects outside the store's database go through calls
	// with child keys, which the next hops deduplicate.
	Keyed = store.Keyed
	// Opaque means any other effect: after a failure its outcome is unknown.
	Opaque = store.Opaque
)

// The states of a key.
const (
	StateInProgress  = store.StateInProgress  // an owner holds the key until its lease ends
	StateCompleted   = store.StateCompleted   // the outcome is recorded and final
	StateReleased    = store.StateReleased    // the next call runs
	StateUnknown     = store.StateUnknown     // the outcome of an Opaque run is unknown
	StateQuarantined = store.StateQuarantined // too many owners died; the key is quarantined
	StateCancelled   = store.StateCancelled   // the key will never run (again)
)

// The fates of a forward call.
const (
	Ran      = store.Ran      // it completed; undo it
	NeverRan = store.NeverRan // it had no effect and never will have one
	MaybeRan = store.MaybeRan // some run of it may have had effects; undo what can be found
)

// The errors that a guard, its handlers and its callers see.
var (
	// ErrArgument: an argument is wrong; nothing changed.
	ErrArgument = store.ErrArgument
	// ErrNotFound: the store does not contain the record.
	ErrNotFound = store.ErrNotFound
	// ErrLeaseLost is the cause that a run's ctx is cancelled with once the run is no
	// longer the key's owner.
	ErrLeaseLost = store.ErrLeaseLost
	// ErrNoRun: ctx is not the ctx of a run, or the run is over.
	ErrNoRun = store.ErrNoRun
	// ErrWrongEffect: the route's effect class does not allow the call or option.
	ErrWrongEffect = store.ErrWrongEffect
)
