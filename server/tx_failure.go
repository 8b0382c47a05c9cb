package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// failed settles a turn whose transaction cannot be committed, and was rolled back.
// A refused statement leaves an answer of 4xx true: it promises no rows. Every
// other answer that would be stored promises rows that are gone.
func (t *turn) failed(res result, failure error) outcome {
	r := t.run
	var refused *TxError
	if !errors.As(failure, &refused) {
		r.guard.observeStoreError(r.call, failure)
		r.release(false)
		if t.refusal != "" {
			return t.served(res, true)
		}
		return r.unavailable(failure)
	}
	if t.disposition(res) != dispositionStore {
		r.release(refused.Ended)
		return t.served(res, true)
	}
	promises := res.answer.Status < http.StatusBadRequest && !t.rollback || res.needsRows
	if refused.Ended || promises {
		return r.transactionFailed(refused)
	}
	s := r.completion(t, res)
	return r.completed(s, r.settle(s))
}

// refusedCommit settles a run whose COMMIT the store refused.
func (r *run) refusedCommit(refused *TxError) outcome {
	if !refused.Commit || !refused.violation() || r.call.onCommitError == nil {
		return r.transactionFailed(refused)
	}
	res, err := r.amend(refused)
	if err != nil {
		r.guard.log.write(r.ctx, logLine{
			level: slog.LevelError, message: "OnCommitError failed", route: r.call.route.Name, id: r.owner.ID, err: err,
		})
		return r.transactionFailed(refused)
	}
	s := r.completion(&turn{run: r}, res) // what the handler said of its own answer does not count for this one
	return r.completed(s, r.settle(s))
}

var errAmended = errors.New("server: OnCommitError did not return a 4xx that is stored")

// amend asks the route for an answer. If that panics the key is released first.
func (r *run) amend(refused *TxError) (res result, err error) {
	returned := false
	defer func() {
		if !returned {
			r.guard.observe(Event{Kind: EventPanic, Route: r.call.route.Name, ID: r.owner.ID})
			r.release(false)
		}
	}()
	res, err = r.call.onCommitError(r.ctx, refused)
	returned = true
	switch status := res.answer.Status; {
	case err != nil:
	case res.unfit, status < 400, status > 499, neverStored(status):
		err = fmt.Errorf("%w: status %d", errAmended, status)
	}
	return res, err
}

// transactionFailed releases the key, and tells a person what to correct.
func (r *run) transactionFailed(refused *TxError) outcome {
	r.release(refused.Ended)
	r.guard.log.write(r.ctx, logLine{
		level: slog.LevelError, message: "transaction failed under an answer of success: the answer was dropped",
		code: wire.TransactionFailed, route: r.call.route.Name, id: r.owner.ID,
		more: append(refusedAttrs(refused), slog.String("advice", refused.advice())),
	})
	return outcome{code: wire.TransactionFailed, err: refused}
}

// refusedAttrs say what the store refused. They hold no value of a row.
func refusedAttrs(refused *TxError) []slog.Attr {
	return []slog.Attr{
		slog.String("sqlstate", refused.SQLState), slog.String("constraint", refused.Constraint),
		slog.Bool("commit", refused.Commit), slog.String("reason", refused.Reason),
	}
}
