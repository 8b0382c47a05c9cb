package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// maxTurns is how often a conflict makes the handler, or the completion hooks,
// run within one claim.
const maxTurns = 3

// errStop marks an error of a completion that must not be tried again in
// place.
var errStop = errors.New("server: not tried again")

// A hookError is what a completion hook returned.
type hookError struct{ err error }

func (e *hookError) Error() string { return fmt.Sprintf("server: completion hook: %v", e.err) }

func (e *hookError) Unwrap() error { return e.err }

// transact runs a Transactional call, again where a conflict rolled it back.
func (r *run) transact() outcome {
	for n := 1; ; n++ {
		out, conflict := r.transaction(n == maxTurns)
		if !conflict {
			return out
		}
		r.guard.observe(Event{Kind: EventConflict, Route: r.call.route.Name, ID: r.owner.ID})
		sleep(r.ctx, conflictPause(n))
	}
}

// conflictPause keeps two runs that collided from colliding again.
func conflictPause(n int) time.Duration {
	most := time.Duration(n) * 10 * time.Millisecond
	return most/2 + rand.N(most/2)
}

// transaction is one turn in one transaction. It reports a conflict only if
// the turn may be repeated.
func (r *run) transaction(last bool) (out outcome, conflict bool) {
	tx, err := r.guard.txStore.Begin(r.ctx)
	if err != nil {
		r.release(false)
		if r.isLost() { // before there was a transaction
			return leaseLost(), false
		}
		r.guard.observeStoreError(r.call, err)
		return storeRefusal(err), false
	}
	t := &turn{run: r, tx: tx}
	defer t.discard()
	res := t.work(tx.NewContext(r.ctx), func() {
		r.guard.observe(Event{Kind: EventPanic, Route: r.call.route.Name, ID: r.owner.ID})
		t.discard()
		r.release(false)
	})
	if tx.Conflict() {
		t.discard()
		if !last {
			return outcome{}, true
		}
		r.release(false)
		return r.tired(res), false
	}
	switch t.disposition(res) {
	case dispositionStore:
		return r.commit(t, res, last)
	default:
		t.discard()
		r.release(false)
		return t.served(res, true), false
	}
}

// commit makes rows and answer durable together, or the answer alone after
// Rollback.
func (r *run) commit(t *turn, res result, last bool) (out outcome, conflict bool) {
	s := r.completion(t, res)
	if t.rollback {
		t.discard()
		return r.completed(s, r.settle(s)), false
	}
	r.seat.settling()
	ctx, cancel := r.detached(r.guard.cfg.SettleTimeout)
	defer cancel()
	err := t.tx.Settle(ctx, r.owner, s)
	t.committed = err == nil
	switch {
	case errors.Is(err, ErrConflict) && !last:
		return outcome{}, true
	case err == nil, errors.Is(err, ErrLeaseLost):
	case errors.Is(err, ErrFateUnknown):
		// It may be durable, or become so: neither another run nor a release
		// is safe here. The next call finds out.
		r.guard.observeStoreError(r.call, err)
	default: // nothing changed
		r.guard.observeStoreError(r.call, err)
		t.discard()
		r.release(false)
	}
	return r.completed(s, err), false
}

// discard rolls the turn's transaction back, unless it was committed.
func (t *turn) discard() {
	if t.committed {
		return
	}
	ctx, cancel := t.run.detached(t.run.guard.cfg.StoreTimeout)
	defer cancel()
	if err := t.tx.Rollback(ctx); err != nil { // the database forgets it by itself
		t.run.guard.observeStoreError(t.run.call, err)
	}
}

// tired is the outcome of a run whose last turn ended in a conflict.
func (r *run) tired(res result) outcome {
	if !res.unfit && res.answer.Status >= http.StatusInternalServerError {
		return outcome{ran: true, again: true}
	}
	return outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: ErrConflict}
}

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
			if conflicts++; conflicts == maxTurns {
				return &hookError{err}
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
			if tx.Conflict() {
				return fmt.Errorf("%w: %w", ErrConflict, err)
			}
			return &hookError{err}
		}
	}
	err = tx.Settle(ctx, r.owner, s)
	t.committed = err == nil
	return err
}
