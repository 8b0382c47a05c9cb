package server

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

const (
	// maxConflicts is how many conflicts of the handler, or of the completion
	// hooks, one claim stands.
	maxConflicts = 3
	// maxLosses is how many lost transactions one claim stands. A statement that
	// ends its session each time must not go on for ever.
	maxLosses = 2
)

// transact runs a Transactional call. It runs the handler again after a conflict,
// and once after a loss of the transaction.
func (r *run) transact() outcome {
	for conflicts, losses := 0, 0; ; {
		out, failure := r.transaction()
		switch {
		case failure == nil:
			return out
		case errors.Is(failure, ErrConflict):
			if conflicts++; conflicts == maxConflicts {
				r.release(false)
				return out
			}
			r.guard.observe(Event{Kind: EventConflict, Route: r.call.route.Name, ID: r.owner.ID})
			sleep(r.ctx, conflictPause(conflicts))
		default:
			r.guard.observeStoreError(r.call, failure)
			if losses++; losses == maxLosses {
				r.die()
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

// transaction is one turn in one transaction. It returns a failure, [ErrConflict]
// or [ErrTxLost], if the turn may be repeated: then nothing is settled, and the
// outcome is the answer if the turn is not repeated.
func (r *run) transaction() (out outcome, failure error) {
	tx, err := r.guard.txStore.Begin(r.ctx)
	if err != nil {
		r.release(false)
		r.guard.observeStoreError(r.call, err)
		return r.unavailable(err), nil
	}
	t := &turn{run: r, tx: tx}
	defer t.discard()
	res := t.work(tx.NewContext(r.ctx), func() {
		r.guard.observe(Event{Kind: EventPanic, Route: r.call.route.Name, ID: r.owner.ID})
		t.discard()
		r.release(false)
	})
	switch failure := tx.Err(); {
	case errors.Is(failure, ErrConflict):
		t.discard()
		return r.tired(res), failure
	case errors.Is(failure, ErrTxLost):
		t.discard()
		return r.unavailable(failure), failure
	case failure != nil:
		t.discard()
		return t.failed(res, failure), nil
	case t.disposition(res) == dispositionStore:
		return r.commit(t, res)
	default:
		t.discard()
		r.release(false)
		return t.served(res, true), nil
	}
}

// commit makes rows and answer durable together, or the answer alone after
// Rollback. A failure is as of transaction.
func (r *run) commit(t *turn, res result) (out outcome, failure error) {
	s := r.completion(t, res)
	if t.rollback {
		t.discard()
		return r.completed(s, r.settle(s)), nil
	}
	r.seat.settling()
	ctx, cancel := r.detached(r.guard.cfg.SettleTimeout)
	defer cancel()
	err := t.tx.Settle(ctx, r.owner, s)
	if err != nil {
		return r.notCommitted(t, s, err)
	}
	t.committed = true
	return r.completed(s, nil), nil
}

// notCommitted is what follows from the error of a commit.
func (r *run) notCommitted(t *turn, s Settlement, err error) (out outcome, failure error) {
	var refused *TxError
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrTxLost):
		return r.unavailable(err), err
	case errors.Is(err, ErrLeaseLost):
	case errors.Is(err, ErrFateUnknown):
		// It may be durable, or become so: neither another run nor a release
		// is safe here. The next call finds out.
		r.guard.observeStoreError(r.call, err)
	case errors.As(err, &refused):
		t.discard()
		return r.refusedCommit(refused), nil
	default: // nothing changed
		r.guard.observeStoreError(r.call, err)
		t.discard()
		r.release(false)
	}
	return r.completed(s, err), nil
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

// unavailable is the outcome of a run that the store left without a transaction.
func (r *run) unavailable(err error) outcome {
	if r.isLost() {
		return leaseLost()
	}
	return storeRefusal(err)
}
