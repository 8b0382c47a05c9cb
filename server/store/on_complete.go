package store

import (
	"context"
	"errors"

	"github.com/fanonce/fanonce/server/internal/runctx"
)

// These are the errors of [OnComplete] and of the functions that a handler calls with its ctx.
var (
	// ErrNoRun: ctx is not the ctx of a run, or the run is over.
	ErrNoRun = errors.New("server: not inside a run")
	// ErrWrongEffect: the route's effect class does not allow the call or option.
	ErrWrongEffect = errors.New("server: not available to this effect class")
	// ErrNoHook: the function is nil.
	ErrNoHook = errors.New("server: nil completion hook")
	// ErrNoTxStore: the guard's store does not implement [TxStore].
	ErrNoTxStore = errors.New("server: the store has no transactions")
)

// OnComplete registers fn to run in the transaction that completes a [Keyed] run, after the handler returned a status
// below 400. After a refusal that is stored it runs only if the handler settled with server.KeepRows. The rows that fn
// writes with the store's accessor for ctx, such as pgstore.Tx, commit together with the stored answer, or not at all. Functions run in the order of registration. An error of fn rolls back, releases the
// key, and is answered with 500 transaction-failed; the next call runs the handler again. The answer invites a retry
// (Idempotency-Should-Retry: true), unless the store refused a statement or the COMMIT: it would refuse the same rows
// again.
//
// fn may run more than once (after a serialization failure) and must not keep its ctx. OnComplete returns [ErrNoRun]
// outside a run, and [ErrWrongEffect] in a run that is not Keyed. It returns [ErrNoTxStore] over a store without
// transactions, and [ErrNoHook] for a nil fn.
func OnComplete(ctx context.Context, fn func(ctx context.Context) error) error {
	if run := runctx.From(ctx); run != nil {
		return run.OnComplete(fn)
	}
	return ErrNoRun
}
