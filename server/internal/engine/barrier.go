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
	err := withAttempt(ctx, func(a *Attempt) error {
		if a.run.call.Forward.IsZero() {
			return ErrNoForwardKey
		}
		if a.fate == 0 && a.cause == nil {
			a.cancelForward(ctx)
		}
		fate = a.fate
		return a.cause
	})
	return fate, err
}

func (a *Attempt) cancelForward(ctx context.Context) {
	c, e := a.run.call, a.run.engine
	req := store.CancelRequest{ID: c.ForwardID, Token: NewToken(), Keep: e.cfg.Keep}
	cancel := e.store.Cancel
	if a.tx != nil {
		cancel = a.tx.Cancel
	}
	before, existed, err := cancel(ctx, req)
	switch {
	case errors.Is(err, store.ErrConflict):
		a.cause = err // the attempt is repeated
	case err != nil:
		a.cause, a.refusal = err, StoreRefusal(err).Code
		e.observeStoreError(ctx, c, err)
	default:
		if a.fate, a.cause = store.FateOf(before, existed); a.cause != nil {
			a.refusal = wire.InProgress
		}
	}
}
