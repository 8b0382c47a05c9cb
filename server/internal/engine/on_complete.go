package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/runctx"
	"github.com/fanonce/fanonce/server/store"
)

// errStop marks an error of a completion that must not be repeated at once.
var errStop = errors.New("server: not tried again")

// A hookError is the error of a completion hook, or of the hooks' transaction.
type hookError struct {
	err     error
	refused *store.TxError // why the store refused the transaction, if it did
}

func (e *hookError) Error() string { return fmt.Sprintf("server: completion hook: %v", e.err) }

func (e *hookError) Unwrap() error { return e.err }

// settleWithHooks runs the hooks and settles in one transaction.
func (r *run) settleWithHooks(hooks []func(context.Context) error, s store.Settlement) error {
	returned := false
	defer func() {
		if !returned { // a hook panicked
			r.observePanic()
			r.releaseFailed(true)
		}
	}()
	conflicts := 0
	err := r.insist(func(ctx context.Context) error {
		err := r.tryHooks(ctx, hooks, s)
		if errors.Is(err, store.ErrConflict) {
			if conflicts++; conflicts == maxConflicts {
				return &hookError{err: err}
			}
			r.engine.observe(r.ctx, store.Event{Kind: store.EventConflict, Route: r.call.Route.Name, ID: r.owner.ID})
		}
		if errors.Is(err, store.ErrFateUnknown) {
			return fmt.Errorf("%w: %w", errStop, err)
		}
		return err
	})
	returned = true
	return err
}

// tryHooks runs the hooks and settles, once. The caller may repeat it after any error
// except a [hookError].
func (r *run) tryHooks(ctx context.Context, hooks []func(context.Context) error, s store.Settlement) error {
	tx, err := r.engine.txStore.Begin(ctx)
	if err != nil {
		return err
	}
	a := &Attempt{run: r, tx: tx}
	defer a.discard()
	a.over = true // a hook can still read the fence, but change nothing
	hookCtx := tx.NewContext(runctx.NewContext(ctx, a))
	for _, hook := range hooks {
		if err := hook(hookCtx); err != nil {
			return hookFailure(ctx, err, tx.Err())
		}
	}
	err = tx.Settle(ctx, r.owner, s)
	a.committed = err == nil
	var refused *store.TxError
	if errors.As(err, &refused) || gaveUp(ctx, err) {
		return &hookError{err, refused}
	}
	return err
}

// gaveUp reports whether the hooks failed because they themselves gave a statement up. If ctx has ended, which bounds
// them, the store may hang.
func gaveUp(ctx context.Context, failure error) bool {
	return errors.Is(failure, store.ErrTxAbandoned) && ctx.Err() == nil
}

// hookFailure is the error of hooks that returned err while the transaction had
// failed as failure says. An error of the store is not the hook's failure: the
// hooks run again, as if the store could not begin a transaction.
func hookFailure(ctx context.Context, err, failure error) error {
	var refused *store.TxError
	if failure == nil || errors.As(failure, &refused) || gaveUp(ctx, failure) {
		return &hookError{err, refused}
	}
	return failure
}

// settleHookError settles a run whose hooks failed. Their rows are rolled back, and the
// effects of the handler stay: the next call runs it again. If the store refused the rows
// it would refuse them again, and no retry can help.
func (r *run) settleHookError(failed *hookError) Outcome {
	if errors.Is(failed, store.ErrConflict) {
		r.release(true)
		return Outcome{Code: wire.StoreUnavailable, RetryAfter: time.Second, Err: failed}
	}
	r.releaseFailed(true)
	line := Line{
		Level: slog.LevelError, Message: "completion hook failed: its rows were rolled back, and the answer was dropped",
		Code: wire.TransactionFailed, Route: r.call.Route.Name, ID: r.owner.ID, Err: failed,
	}
	out := Outcome{Code: wire.TransactionFailed, Err: failed}
	if failed.refused == nil {
		out.Retryable, out.RetryAfter, out.Detail = true, time.Second, hookDetail
	} else {
		line.Err, line.Attrs = failed.refused, refusedAttrs(failed.refused)
	}
	r.engine.cfg.Log(r.ctx, line)
	return out
}

// hookDetail is for people, like details.
const hookDetail = "The service failed to record the work. Its rows were rolled back. Send the same request with the same key again."
