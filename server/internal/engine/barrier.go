package engine

import (
	"context"
	"errors"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// ErrNoForwardKey: the call names no forward key.
var ErrNoForwardKey = errors.New("server: the request names no forward key")

// Barrier cancels the forward call of the run that ctx belongs to, and returns that call's fate. Called again in the
// same run it returns the same fate.
func Barrier(ctx context.Context) (store.Fate, error) {
	var fate store.Fate
	var failed *Attempt // of whose failure the Observer hears when the attempt is not locked
	err := withAttempt(ctx, func(a *Attempt) error {
		if a.run.call.Forward.IsZero() {
			return ErrNoForwardKey
		}
		if a.fate == 0 && a.cause == nil {
			a.cancelForward(ctx)
			switch {
			case a.cause == nil, a.refusal == wire.InProgress, errors.Is(a.cause, store.ErrConflict):
			case ctx.Err() != nil: // the store is not to blame
				a.refusal = wire.TransactionFailed
			default:
				failed = a
			}
		}
		fate = a.fate
		return a.cause
	})
	if failed != nil {
		failed.run.engine.observeStoreError(ctx, failed.run.call, err)
	}
	return fate, err
}

// A canceller is the part of a store, or of its transaction, that an undo needs.
type canceller interface {
	Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error)
}

func (a *Attempt) cancelForward(ctx context.Context) {
	c, e := a.run.call, a.run.engine
	var forward canceller = e.store
	if a.tx != nil {
		forward = a.tx
	}
	before, existed, err := forward.Cancel(ctx, a.run.cancelOf(false))
	switch {
	case errors.Is(err, store.ErrConflict):
		a.cause = err // the attempt is repeated
	case errors.Is(err, store.ErrInProgress): // another transaction is deciding about the forward key
		a.cause, a.refusal = err, wire.InProgress
	case err != nil:
		a.cause, a.refusal = err, StoreRefusal(err).Code
	default:
		if c.Inbound.ForwardRan && (!existed || before.State == store.StateCancelled) {
			a.fate = store.Ran // its record has been swept since, maybe before an earlier run of this undo
			return
		}
		if a.fate, a.cause = store.FateOf(before, existed); a.cause != nil {
			a.refusal = wire.InProgress
		}
	}
}

func (r *run) cancelOf(undone bool) store.CancelRequest {
	return store.CancelRequest{ID: r.call.ForwardID, Token: NewToken(), Keep: r.engine.cfg.Keep, Undone: undone}
}

// hasUndone reports whether the attempt undid a completed call: it asked, and answered that it succeeded. From now on
// the forward key must not promise its effect to anybody. A caller that goes forward again after half of an undo is
// told key-cancelled, and undoes the rest.
func (a *Attempt) hasUndone(answer store.Answer) bool {
	return a.Fate() == store.Ran && answer.Status < 400
}

// writeTombstone makes the forward key a tombstone, in the transaction of the undo or, outside one, when the undo is done and
// before its answer is stored. A crash in between runs the undo again, and it is told the same fate.
func (a *Attempt) writeTombstone(ctx context.Context, forward canceller) error {
	_, _, err := forward.Cancel(ctx, a.run.cancelOf(true))
	return err
}
