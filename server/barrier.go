package server

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A Fate is what became of the forward call that an undo names.
type Fate uint8

const (
	// Ran means that the forward call completed; undo it.
	Ran Fate = iota + 1
	// NeverRan means that the forward call had no effect and never will have
	// one: its key is a tombstone now, or it completed with a status of 400 or
	// above, and no run before that one can have had effects. There is nothing
	// to undo.
	NeverRan
	// MaybeRan means that some run of the forward call may have had effects: it
	// died or failed, and was not Transactional. No further run follows, for the
	// key is a tombstone now, or a later run of it completed with a status of 400
	// or above. Undo what can be found.
	MaybeRan
)

// String returns the name of the fate.
func (f Fate) String() string {
	switch f {
	case Ran:
		return "ran"
	case NeverRan:
		return "never ran"
	case MaybeRan:
		return "maybe ran"
	default:
		return "undecided"
	}
}

// The errors of [Barrier].
var (
	// ErrForwardInProgress: the forward call is running at this moment. The
	// undo is answered with 409 in-progress, whatever its handler writes.
	ErrForwardInProgress = errors.New("server: the forward call is in progress")
	// ErrNoForwardKey: the request carries no Idempotency-Cancels header.
	ErrNoForwardKey = errors.New("server: the request names no forward key")
)

// header is the fate as an answer has it; "" while it is undecided.
func (f Fate) header() string {
	switch f {
	case Ran:
		return wire.ForwardRan
	case NeverRan:
		return wire.ForwardNeverRan
	case MaybeRan:
		return wire.ForwardMaybeRan
	default:
		return ""
	}
}

// Barrier tells an undo handler what became of the forward call, and keeps a
// forward call that has not completed from ever running: a late copy of it
// gets key-cancelled. Call it first; on [NeverRan] answer success.
//
// In a [Transactional] run it is part of the transaction: the forward call
// cannot begin while the undo is under way, and an undo that rolls back leaves
// no tombstone. In other runs the tombstone is durable when Barrier returns.
// Called again in the same run it returns the same. An answer of 2xx says it to the
// caller as well, in Idempotent-Forward, and so does its replay, but for one that
// [NoStore] has rendered anew.
//
// On [ErrForwardInProgress] or an error of the store return from the handler:
// the undo is released and answered with 409 or 503, and a retry tries again.
// Other errors are [ErrNoRun] and [ErrNoForwardKey].
func Barrier(ctx context.Context) (Fate, error) {
	var fate Fate
	err := withTurn(ctx, func(t *turn) error {
		if t.run.call.forward.IsZero() {
			return ErrNoForwardKey
		}
		if t.fate == 0 && t.cause == nil {
			t.cancelForward(ctx)
		}
		fate = t.fate
		return t.cause
	})
	return fate, err
}

func (t *turn) cancelForward(ctx context.Context) {
	c := t.run.call
	req := CancelRequest{ID: c.forwardID, Token: newToken(), Keep: t.run.guard.cfg.AuditRetention}
	cancel := t.run.guard.store.Cancel
	if t.tx != nil {
		cancel = t.tx.Cancel
	}
	before, existed, err := cancel(ctx, req)
	switch {
	case errors.Is(err, ErrConflict):
		t.cause = err // the turn is repeated
	case err != nil:
		t.cause, t.refusal = err, storeRefusal(err).code
		t.run.guard.observeStoreError(c, err)
	default:
		if t.fate, t.cause = FateOf(before, existed); t.cause != nil {
			t.refusal = wire.InProgress
		}
	}
}

// FateOf is what [Barrier] makes of the forward record as a store's Cancel
// returned it: before is the record as it was, existed is false if there was
// none. It returns [ErrForwardInProgress] for a run within its lease.
func FateOf(before Record, existed bool) (Fate, error) {
	switch {
	case !existed:
		return NeverRan, nil
	case before.State == StateInProgress && before.LeaseLeft() > 0:
		return 0, ErrForwardInProgress
	default:
		return fateOf(&before), nil
	}
}

// fateOf judges the forward record as it was before the cancel. It is pure.
func fateOf(before *Record) Fate {
	maybe := before.MaybeRan
	switch before.State {
	case StateCompleted:
		if before.Answer.Status < http.StatusBadRequest {
			return Ran
		}
		// A refusal speaks for its own run, and not for one before it that failed.
	case StateReleased, StateCancelled:
	case StateInProgress, StatePoisoned: // dead
		maybe = maybe || before.Effect != Transactional
	default: // unknown, or written by a later version
		maybe = true
	}
	if maybe {
		return MaybeRan
	}
	return NeverRan
}

// newToken returns a random token. crypto/rand never fails: it ends the
// process instead.
func newToken() (t Token) {
	_, _ = rand.Read(t[:])
	return t
}
