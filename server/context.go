package server

import (
	"context"
	"errors"
)

// The errors of the functions that a handler calls with its ctx.
var (
	// ErrNoRun: ctx is not the ctx of a run, or the run is over.
	ErrNoRun = errors.New("server: not inside a run")
	// ErrWrongEffect: the route's effect class does not have this.
	ErrWrongEffect = errors.New("server: not available to this effect class")
	// ErrNoHook: the function is nil.
	ErrNoHook = errors.New("server: nil completion hook")
	// ErrNoTxStore: the guard's store is no [TxStore].
	ErrNoTxStore = errors.New("server: the store has no transactions")
)

// Fence returns the fence of this run, to pass on to what checks it: a write
// whose fence is lower than one already seen comes from an owner that was
// replaced. It is 0 outside a run, and at least 1 inside.
func Fence(ctx context.Context) int64 {
	if t := turnFrom(ctx); t != nil {
		return t.run.owner.Fence
	}
	return 0
}

// Rollback makes a [Transactional] run discard its rows and still store its
// answer: what a handler calls before it answers "declined" after writing.
// Outside a run it returns [ErrNoRun], and [ErrWrongEffect] in one that is not
// Transactional.
func Rollback(ctx context.Context) error {
	return withTurn(ctx, func(t *turn) error {
		if t.run.call.route.Effect != Transactional {
			return ErrWrongEffect
		}
		t.rollback = true
		return nil
	})
}

// OnComplete registers fn to run in the transaction that completes a [Keyed]
// run, after the handler returned a status that is stored, a 4xx among them: the rows
// that fn writes with the store's accessor for ctx and the stored answer
// commit together or not at all. Functions run in the order of registration.
// An error of fn rolls back, releases the key, and is answered with 500
// transaction-failed; the next call runs the handler again. A retry is invited
// (Idempotency-Should-Retry: true) unless the store refused a statement or the
// COMMIT: it would refuse the same rows again.
//
// fn may run more than once (after a serialization failure) and must not keep
// its ctx. Outside a run OnComplete returns [ErrNoRun], in one that is not Keyed
// [ErrWrongEffect], over a store without transactions [ErrNoTxStore], and for a nil fn
// [ErrNoHook]. pgstore.OnComplete is the typed form.
func OnComplete(ctx context.Context, fn func(ctx context.Context) error) error {
	return withTurn(ctx, func(t *turn) error {
		switch {
		case fn == nil:
			return ErrNoHook
		case t.run.call.route.Effect != Keyed:
			return ErrWrongEffect
		case t.run.guard.txStore == nil:
			return ErrNoTxStore
		}
		t.hooks = append(t.hooks, fn)
		return nil
	})
}

// Veto tells the caller that no retry can help, whatever the answer's status:
// Idempotency-Should-Retry is false. It changes nothing of what is stored. A handler
// calls it where a service that it called said so; a typed handler only has to
// return that error ([wire.ErrVetoed]). Outside a run it returns [ErrNoRun].
func Veto(ctx context.Context) error {
	return withTurn(ctx, func(t *turn) error {
		t.vetoed = true
		return nil
	})
}

// Retryable makes this run end without a stored answer, whatever its status:
// the key is released and the next call runs again. A Transactional run is
// rolled back. A Keyed or Opaque run is marked as one that may have had
// effects; an Opaque handler says with it that running again does no harm. It
// wins over [Final]. Outside a run it returns [ErrNoRun].
func Retryable(ctx context.Context) error {
	return withTurn(ctx, func(t *turn) error {
		t.overrule = overruleRetryable
		return nil
	})
}

// Final makes the answer of this run stored, whatever its status, and so the
// answer to every retry: a 5xx that will not change, a 403 that is a verdict.
// A Transactional run commits its rows. It cannot make a panic, a refused
// stream or an invalid status storable. Outside a run it returns [ErrNoRun].
func Final(ctx context.Context) error {
	return withTurn(ctx, func(t *turn) error {
		if t.overrule == overruleNone {
			t.overrule = overruleFinal
		}
		return nil
	})
}
