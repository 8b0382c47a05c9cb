package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// settleFailed settles an attempt whose transaction cannot be committed, and was rolled back. After a refused statement an
// answer of 4xx is still true: it promises no rows, unless the handler wanted to keep them. Every other answer that would be stored promises rows that are
// rolled back. A failure of its own is as in attemptTransaction.
func (a *Attempt) settleFailed(res Result, cause error) (out Outcome, failure error) {
	r := a.run
	var refused *store.TxError
	switch {
	case errors.As(cause, &refused):
	case a.refusal != "": // of the Barrier, which failed first
		r.release(false)
		return a.outcomeOf(res, true), nil
	case errors.Is(cause, store.ErrTxAbandoned):
		return a.settleAbandoned(res, cause), nil
	default:
		r.engine.observeStoreError(r.ctx, r.call, cause)
		r.release(false)
		return r.unavailable(cause), nil
	}
	switch a.disposition(res) {
	case Store:
	case Fail:
		r.releaseFailed(refused.Ended)
		return a.outcomeOf(res, true), nil
	default:
		r.release(refused.Ended)
		return a.outcomeOf(res, true), nil
	}
	if refused.Ended || !a.discardsRows(res.Answer) {
		return r.settleTransactionError(refused), nil
	}
	return r.settleRefusal(a, res)
}

// settleAbandoned settles an attempt of which a statement was cut off, because its ctx ended. The store is not to blame. The
// handler's own failure is the answer, if it noticed. A 4xx is not stored: it may rest on what the statement did not tell.
func (a *Attempt) settleAbandoned(res Result, cause error) Outcome {
	r := a.run
	r.engine.cfg.Log(r.ctx, Line{
		Level: slog.LevelWarn, Message: "a statement of the handler was cut off: its transaction was rolled back",
		Route: r.call.Route.Name, ID: r.owner.ID, Err: cause,
	})
	switch a.disposition(res) {
	case Store:
		r.releaseFailed(false)
		return r.cutShort(cause)
	case Fail:
		r.releaseFailed(false)
	default:
		r.release(false)
	}
	return a.outcomeOf(res, true)
}

// cutShort is the outcome of a run that could not do its work because a ctx ended. Its transaction was rolled back.
func (r *run) cutShort(cause error) Outcome {
	switch {
	case r.isLost():
		return leaseLostRefusal()
	case errors.Is(context.Cause(r.ctx), ErrShutdown):
		return interruptedRefusal()
	default:
		return Outcome{Code: wire.TransactionFailed, Err: cause, Detail: cutShortDetail, Retryable: true, RetryAfter: time.Second}
	}
}

// cutShortDetail is for people, like the details of package server. It is for requests without a key, too.
const cutShortDetail = "The service's time for this request was over before its database had answered. What it wrote was rolled back. Send the same request again."

// settleRefusedCommit settles the run of an attempt whose COMMIT the store refused. A failure is as in
// attemptTransaction.
func (r *run) settleRefusedCommit(a *Attempt, refused *store.TxError) (out Outcome, failure error) {
	if !refused.Commit || !isViolation(refused) || r.call.OnCommitError == nil {
		return r.settleTransactionError(refused), nil
	}
	res, err := r.amend(refused)
	if err != nil {
		r.engine.cfg.Log(r.ctx, Line{
			Level: slog.LevelError, Message: "OnCommitError failed", Route: r.call.Route.Name, ID: r.owner.ID, Err: err,
		})
		return r.settleTransactionError(refused), nil
	}
	// The handler's options for its own answer do not count for this answer.
	return r.settleRefusal(&Attempt{run: r, fate: a.Fate()}, res)
}

var errAmended = errors.New("server: OnCommitError did not return a 4xx that is stored")

// amend asks the route for an answer. If that panics the key is released first.
func (r *run) amend(refused *store.TxError) (res Result, err error) {
	returned := false
	defer func() {
		if !returned {
			r.observePanic()
			r.releaseFailed(false)
		}
	}()
	res, err = r.call.OnCommitError(r.ctx, refused)
	returned = true
	switch status := res.Answer.Status; {
	case err != nil:
	case res.Unfit, status < leastRefusal, res.Disposition != Store:
		err = fmt.Errorf("%w: status %d", errAmended, status)
	}
	return res, err
}

// settleTransactionError releases the key, and logs for a person what to correct.
func (r *run) settleTransactionError(refused *store.TxError) Outcome {
	r.releaseFailed(refused.Ended)
	r.engine.cfg.Log(r.ctx, Line{
		Level: slog.LevelError, Message: "transaction failed under an answer that promises its rows: the answer was dropped",
		Code: wire.TransactionFailed, Route: r.call.Route.Name, ID: r.owner.ID,
		Attrs: append(refusedAttrs(refused), slog.String("advice", advice(refused))),
	})
	return Outcome{Code: wire.TransactionFailed, Err: refused}
}

// refusedAttrs describe what the store refused. They hold no value of a row.
func refusedAttrs(refused *store.TxError) []slog.Attr {
	return []slog.Attr{
		slog.String("sqlstate", refused.SQLState), slog.String("constraint", refused.Constraint),
		slog.Bool("commit", refused.Commit), slog.String("reason", refused.Reason),
	}
}

// isViolation reports whether the store refused the data, and not the code:
// class 23 of the SQL standard, integrity constraint violation.
func isViolation(e *store.TxError) bool { return strings.HasPrefix(e.SQLState, "23") }

// advice tells a person what to change in the handler.
func advice(e *store.TxError) string {
	switch {
	case e.Ended:
		return "leave COMMIT and ROLLBACK to the guard, and look for rows without an answer"
	case e.Commit && isViolation(e):
		return "set Route.OnCommitError to answer a deferred constraint, or make it immediate"
	case isViolation(e):
		return "answer with a 4xx, or use a savepoint or ON CONFLICT if the violation is expected"
	case e.SQLState == "":
		return "correct the handler: see the reason"
	default:
		return "return the statement's error from the handler, and correct the statement or its values"
	}
}
