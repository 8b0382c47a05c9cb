package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// errStop marks an error of a completion that must not be tried again in
// place.
var errStop = errors.New("server: not tried again")

// A hookError is what a completion hook returned, or what the transaction of the hooks
// came to.
type hookError struct {
	err     error
	refused *TxError // why the store refused the transaction, if it did
}

func (e *hookError) Error() string { return fmt.Sprintf("server: completion hook: %v", e.err) }

func (e *hookError) Unwrap() error { return e.err }

// settleWithHooks runs the hooks and settles in one transaction.
func (r *run) settleWithHooks(hooks []func(context.Context) error, s Settlement) error {
	returned := false
	defer func() {
		if !returned { // a hook panicked
			r.guard.observe(Event{Kind: EventPanic, Route: r.call.route.Name, ID: r.owner.ID})
			r.release(true)
		}
	}()
	conflicts := 0
	err := r.insist(func(ctx context.Context) error {
		err := r.tryHooks(ctx, hooks, s)
		if errors.Is(err, ErrConflict) {
			if conflicts++; conflicts == maxConflicts {
				return &hookError{err: err}
			}
			r.guard.observe(Event{Kind: EventConflict, Route: r.call.route.Name, ID: r.owner.ID})
		}
		if errors.Is(err, ErrFateUnknown) {
			return fmt.Errorf("%w: %w", errStop, err)
		}
		return err
	})
	returned = true
	return err
}

// tryHooks runs the hooks and settles, once. The caller may repeat it after any error
// except a [hookError].
func (r *run) tryHooks(ctx context.Context, hooks []func(context.Context) error, s Settlement) error {
	tx, err := r.guard.txStore.Begin(ctx)
	if err != nil {
		return err
	}
	t := &turn{run: r, tx: tx}
	defer t.discard()
	t.over = true // a hook can ask for the fence, and change nothing any more
	hookCtx := tx.NewContext(context.WithValue(ctx, turnKey{}, t))
	for _, hook := range hooks {
		if err := hook(hookCtx); err != nil {
			return hookFailure(err, tx.Err())
		}
	}
	err = tx.Settle(ctx, r.owner, s)
	t.committed = err == nil
	var refused *TxError
	if errors.As(err, &refused) {
		return &hookError{err, refused}
	}
	return err
}

// hookFailure is the error of hooks that returned err while the transaction had
// failed as failure says. Trouble of the store is not the hook's fault: the hooks
// run again, as they would if the store could not begin a transaction.
func hookFailure(err, failure error) error {
	var refused *TxError
	if failure == nil || errors.As(failure, &refused) {
		return &hookError{err, refused}
	}
	return failure
}

// hooksFailed settles a run whose hooks failed. Their rows are rolled back, and the
// effects of the handler stay: the next call runs it again. If the store refused the rows
// it would refuse them again, and no retry can help.
func (r *run) hooksFailed(failed *hookError) outcome {
	r.release(true)
	if errors.Is(failed, ErrConflict) {
		return outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: failed}
	}
	line := logLine{
		level: slog.LevelError, message: "completion hook failed: its rows were rolled back, and the answer was dropped",
		code: wire.TransactionFailed, route: r.call.route.Name, id: r.owner.ID, err: failed,
	}
	out := outcome{code: wire.TransactionFailed, err: failed}
	if failed.refused == nil {
		out.retryable, out.retryAfter, out.detail = true, time.Second, hookDetail
	} else {
		line.err, line.more = failed.refused, refusedAttrs(failed.refused)
	}
	r.guard.log.write(r.ctx, line)
	return out
}

// hookDetail is for people, like details.
const hookDetail = "The service failed to record the work. Its rows were rolled back. Send the same request with the same key again."
