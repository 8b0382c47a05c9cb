package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

const (
	// maxConflicts is how many conflicts of the handler, or of the completion
	// hooks, one claim allows.
	maxConflicts = 3
	// maxLosses is how many lost transactions one claim allows. A statement
	// that ends its session each time must not be repeated without end.
	maxLosses = 2
)

// transact runs a Transactional call. It runs the handler again after a conflict,
// and once after a loss of the transaction.
func (r *run) transact() Outcome {
	for conflicts, losses := 0, 0; ; {
		out, failure := r.attemptTransaction()
		switch {
		case failure == nil:
			return out
		case errors.Is(failure, store.ErrConflict):
			if conflicts++; conflicts == maxConflicts {
				r.release(false)
				return out
			}
			r.engine.observe(r.ctx, store.Event{Kind: store.EventConflict, Route: r.call.Route.Name, ID: r.owner.ID})
			sleep(r.ctx, conflictPause(conflicts))
		default:
			r.engine.observeStoreError(r.ctx, r.call, failure)
			if losses++; losses == maxLosses {
				r.endLease()
				return out
			}
		}
	}
}

// conflictPause keeps two runs that collided from colliding again.
func conflictPause(n int) time.Duration {
	most := time.Duration(n) * 10 * time.Millisecond
	return most/2 + rand.N(most/2)
}

// attemptTransaction makes one attempt in one transaction. If the attempt may be repeated, it returns a failure,
// [store.ErrConflict] or [store.ErrTxLost]. Then nothing is settled, and the outcome is the answer if the attempt is
// not repeated.
func (r *run) attemptTransaction() (out Outcome, failure error) {
	tx, err := r.engine.txStore.Begin(r.ctx)
	switch {
	case err != nil && r.ctx.Err() != nil: // before an attempt, or before another one
		r.releaseFailed(false)
		return r.cutShort(context.Cause(r.ctx)), nil
	case err != nil:
		r.release(false)
		r.engine.observeStoreError(r.ctx, r.call, err)
		return r.unavailable(err), nil
	}
	a := &Attempt{run: r, tx: tx}
	defer a.discard()
	res := a.work(tx.NewContext(r.ctx), func() {
		r.observePanic()
		a.discard()
		r.releaseFailed(false)
	})
	switch failure := tx.Err(); {
	case errors.Is(failure, store.ErrConflict):
		a.discard()
		return r.conflictOutcome(res), failure
	case errors.Is(failure, store.ErrTxLost):
		a.discard()
		return r.unavailable(failure), failure
	case failure != nil:
		a.discard()
		return a.settleFailed(res, failure)
	case a.disposition(res) == Store:
		return r.commit(a, res)
	case a.disposition(res) == Fail:
		a.discard()
		r.releaseFailed(false)
		return a.outcomeOf(res, true), nil
	default:
		a.discard()
		r.release(false)
		return a.outcomeOf(res, true), nil
	}
}

// commit makes rows and answer durable together, or the answer alone if it is a refusal. A failure is as in
// attemptTransaction.
func (r *run) commit(a *Attempt, res Result) (out Outcome, failure error) {
	if a.discardsRows(res.Answer) {
		a.discard()
		return r.settleRefusal(a, res)
	}
	if r.keyless {
		return r.commitKeyless(a)
	}
	s := r.completion(a, res)
	r.member.beginSettle()
	ctx, cancel := r.newSettleContext(r.engine.cfg.SettleTimeout)
	defer cancel()
	if a.hasUndone(s.Answer) {
		if err := a.writeTombstone(ctx, a.tx); err != nil {
			return r.handleCommitError(a, s, err)
		}
	}
	if err := a.tx.Settle(ctx, r.owner, s); err != nil {
		return r.handleCommitError(a, s, err)
	}
	a.committed = true
	return r.concludeCompletion(s, nil), nil
}

// settleRefusal makes the answer of an attempt durable whose rows were rolled back. A failure is as in attemptTransaction.
//
// An undo's answer stands for a forward call that can never run after it. So the tombstone of its Barrier, which was
// rolled back with the rows, is written once more, in one transaction with the answer. The forward call may have begun
// in between: then the handler was told what no longer holds, and must run again.
func (r *run) settleRefusal(a *Attempt, res Result) (out Outcome, failure error) {
	if r.keyless {
		return Outcome{Ran: true}, nil
	}
	s := r.completion(a, res)
	if a.Fate() == 0 {
		return r.concludeCompletion(s, r.settle(s)), nil
	}
	r.member.beginSettle()
	ctx, cancel := r.newSettleContext(r.engine.cfg.SettleTimeout)
	defer cancel()
	tx, err := r.engine.txStore.Begin(ctx)
	if err != nil {
		r.release(false)
		r.engine.observeStoreError(r.ctx, r.call, err)
		return r.unavailable(err), nil
	}
	undo := &Attempt{run: r, tx: tx}
	defer undo.discard()
	undo.cancelForward(ctx)
	switch {
	case undo.refusal != "":
		if undo.refusal != wire.InProgress {
			r.engine.observeStoreError(r.ctx, r.call, undo.cause)
		}
		undo.discard()
		r.release(false)
		return undo.outcomeOf(res, true), nil
	case undo.cause != nil, undo.fate != a.Fate():
		return r.conflictOutcome(res), store.ErrConflict
	}
	err = tx.Settle(ctx, r.owner, s)
	var refused *store.TxError
	switch {
	case err == nil:
		undo.committed = true
		return r.concludeCompletion(s, nil), nil
	case errors.As(err, &refused): // no statement was the handler's, so OnCommitError has no answer to it
		undo.discard()
		return r.settleTransactionError(refused), nil
	default:
		return r.handleCommitError(undo, s, err)
	}
}

// handleCommitError handles the error of a commit.
func (r *run) handleCommitError(a *Attempt, s store.Settlement, err error) (out Outcome, failure error) {
	var refused *store.TxError
	switch {
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrTxLost):
		return r.unavailable(err), err
	case errors.Is(err, store.ErrLeaseLost):
	case errors.Is(err, store.ErrFateUnknown):
		// The commit may be durable, or become durable: neither another run nor
		// a release is safe here. The next call finds out.
		r.engine.observeStoreError(r.ctx, r.call, err)
	case errors.As(err, &refused):
		a.discard()
		return r.settleRefusedCommit(a, refused)
	default: // nothing changed
		r.engine.observeStoreError(r.ctx, r.call, err)
		a.discard()
		r.release(false)
	}
	return r.concludeCompletion(s, err), nil
}

// discard rolls the attempt's transaction back, unless it was committed.
func (a *Attempt) discard() {
	if a.committed {
		return
	}
	ctx, cancel := a.run.newSettleContext(a.run.engine.cfg.StoreTimeout)
	defer cancel()
	if err := a.tx.Rollback(ctx); err != nil { // the database forgets it by itself
		a.run.engine.observeStoreError(a.run.ctx, a.run.call, err)
	}
}

// conflictOutcome is the outcome of a run whose last attempt ended in a conflict. An inbox, which counts attempts, is told
// of the conflict and not of the failure that the handler made of it.
func (r *run) conflictOutcome(res Result) Outcome {
	if !res.Unfit && res.Disposition == Fail && !r.call.CountsAttempts {
		return Outcome{Ran: true, Again: true, Failed: true}
	}
	return Outcome{Code: wire.StoreUnavailable, RetryAfter: time.Second, Err: store.ErrConflict}
}

// unavailable is the outcome of a run that the store left without a transaction.
func (r *run) unavailable(err error) Outcome {
	if r.isLost() {
		return leaseLostRefusal()
	}
	return StoreRefusal(err)
}

// runKeyless runs a Transactional call that has no key: in a transaction as a guarded run, but without a claim and a
// record. So every call runs, and an answer that is lost stays lost.
func (e *Engine) runKeyless(ctx context.Context, c *Call) Outcome {
	r := &run{engine: e, call: c, keyless: true, beyond: context.WithoutCancel(ctx)}
	r.durable.Store(true)
	defer r.limit(r.beyond)()
	defer e.heartbeat.addKeyless(r)()
	out := r.transact()
	if out.Code == wire.StoreUnavailable {
		out.Detail = keylessDetail
	}
	r.observeFailure(out)
	return out
}

// commitKeyless makes the rows durable.
func (r *run) commitKeyless(a *Attempt) (out Outcome, failure error) {
	ctx, cancel := r.newSettleContext(r.engine.cfg.SettleTimeout)
	defer cancel()
	err := a.tx.Commit(ctx)
	switch {
	case err == nil:
		a.committed = true
		return Outcome{Ran: true}, nil
	case errors.Is(err, store.ErrFateUnknown):
		r.engine.observeStoreError(r.ctx, r.call, err)
		return Outcome{Code: wire.OutcomeUnknown, Detail: keylessUnknownDetail, Err: err}, nil
	default:
		return r.handleCommitError(a, store.Settlement{}, err)
	}
}

// These details are for people, like those of package server. The usual ones ask for the same key again.
const (
	keylessDetail        = "The service could not do this, and nothing took effect. Send the request again."
	keylessUnknownDetail = "Nobody knows whether this request took effect, and it has no key by which the service could tell a repetition. Find out before you send it again."
)
