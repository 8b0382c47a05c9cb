package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// InboundKey returns the key of the run as it arrived: the key in the request's
// Idempotency-Key header or as [Route].Key returned it, the key given to [Do], or the key of an inbox's message. Another
// caller may send the same key, so it is stored together with the scope. The package's doc has a table of the keys of a run.
//
// It returns false outside a run, and for a request without a key ([Route].KeyOptional).
func InboundKey(ctx context.Context) (childkey.Key, bool) {
	if a := engine.From(ctx); a != nil {
		return a.Call().Key, !a.Call().Key.IsZero()
	}
	return childkey.Key{}, false
}

// ForwardKey returns what [childkey.FromContext] returned in the run that this
// request undoes: the hop key of the forward key. An undo handler finds the rows
// of the forward run with it. It undoes the calls of the forward run under
// childkey.NewContext(ctx, key).
//
// The scope and the namespace are those of the undo, which must come from the
// forward call's caller. ForwardKey returns false outside a run, and for a
// request without a forward key.
func ForwardKey(ctx context.Context) (childkey.Key, bool) {
	if a := engine.From(ctx); a != nil {
		return a.Call().ForwardHop, !a.Call().ForwardHop.IsZero()
	}
	return childkey.Key{}, false
}

// InboundForwardKey returns the key of the forward call as the undo names it: the
// key in the Idempotency-Cancels header, or [Task.Cancels]. It is [InboundKey] of
// the forward run, and the key that [Barrier] looks up. It returns false outside a run,
// and for a request without a forward key.
func InboundForwardKey(ctx context.Context) (childkey.Key, bool) {
	if a := engine.From(ctx); a != nil {
		return a.Call().Forward, !a.Call().Forward.IsZero()
	}
	return childkey.Key{}, false
}

// Fence returns the fence of this run, to pass on to a system that checks it. The fence
// grows with each take-over: a write with a lower fence than the system has seen comes
// from an owner that was replaced. It is 0 outside a run, and at least 1 inside.
//
// In a [Transactional] run the claim may not be durable yet. Then Fence blocks until it is, for a
// write of the store. If that fails, for [Config.StoreTimeout] at most, Fence returns 0 and the
// run's ctx ends with cause [ErrLeaseLost].
func Fence(ctx context.Context) int64 {
	if a := engine.From(ctx); a != nil {
		return a.Fence()
	}
	return 0
}

// Attempt returns which attempt at the work of its key this run is. The first run is attempt 1. Each earlier run that
// failed by itself, as with a 5xx, or died with its process adds one. A run that a shutdown, its lease or its store ended
// adds none, and neither does one that settled with [Release]. Attempt is 0 outside a run.
func Attempt(ctx context.Context) int {
	if a := engine.From(ctx); a != nil {
		return a.Number()
	}
	return 0
}

// hopKey returns the hop key of a key of s. Its scope, its namespace and key were
// checked before, so Hop returns no error.
func hopKey(s *record.Subject, key childkey.Key) childkey.Key {
	hop, _ := childkey.Hop(s.Scope, s.Namespace, key)
	return hop
}

// The errors of [Barrier].
var (
	// ErrForwardInProgress: the forward call is running at this moment. The
	// undo is answered with 409 in-progress, whatever its handler writes.
	ErrForwardInProgress = store.ErrForwardInProgress
	// ErrNoForwardKey: the request carries no Idempotency-Cancels header.
	ErrNoForwardKey = engine.ErrNoForwardKey
)

// fateHeader is the fate as an answer has it; "" while it is undecided.
func fateHeader(f Fate) string {
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

// Barrier tells an undo handler the fate of the forward call. If the forward call is not
// completed it can never run after that: a late copy of it gets key-cancelled. Call Barrier
// first; on [NeverRan] answer success.
//
// If the forward call completed, and the undo answers with a status below 400, the call is
// undone. From then on a copy of it gets key-cancelled as well, and not the old answer: the
// effect is no longer there. A further undo is still told [Ran].
//
// In a [Transactional] run Barrier is part of the transaction. The forward call cannot begin while the undo runs. The
// tombstone is committed with the undo's stored answer, also with a refusal, whose other rows are rolled back. An undo
// whose answer is not stored leaves no tombstone. In other runs the tombstone is durable when Barrier returns. A second
// call in the same run returns the same fate. An answer of 2xx carries the fate to the caller, in Idempotent-Forward,
// and so does its replay. A replay that [Route].Render made does not.
//
// If the record of the forward call has been swept ([Config].AuditRetention), the caller's word counts: an undo
// with Idempotent-Forward: ran is told [Ran]. Sagas send that for calls that were answered.
//
// On [ErrForwardInProgress] or an error of the store, return from the handler.
// The undo is released and answered with 409 or 503, and a retry runs it again.
// Other errors are [ErrNoRun] and [ErrNoForwardKey].
func Barrier(ctx context.Context) (Fate, error) {
	return engine.Barrier(ctx)
}

// MaxReferenceBytes is the length of the longest text of a [Reference].
const MaxReferenceBytes = 1024

// A SettleOption changes how a run ends: [Final], [Release], [KeepRows],
// [NotRetryable], [DeadLetter] or [Reference]. The zero SettleOption is none of them; it is refused.
type SettleOption struct {
	apply func(*engine.Settling, Effect) error
}

// Settle changes how this run ends, in addition to the handler's status
// ([Effect] has the table). A handler calls it before it returns:
//
//	server.Settle(ctx, server.KeepRows(), server.NotRetryable())
//
// The options of several calls add up. A typed handler can return them with its error
// ([StatusError].Settle).
//
// Outside a run it returns [ErrNoRun]. An option that the route's effect class does not allow is [ErrWrongEffect],
// and any other mistake wraps [ErrArgument]. With an error no option of the call counts.
func Settle(ctx context.Context, how ...SettleOption) error {
	return engine.Settle(ctx, func(told *engine.Settling, effect Effect) error {
		for _, option := range how {
			if option.apply == nil {
				return fmt.Errorf("%w: the zero SettleOption: use Final, Release, KeepRows, NotRetryable, DeadLetter or Reference", ErrArgument)
			}
			if err := option.apply(told, effect); err != nil {
				return err
			}
		}
		return nil
	})
}

// option makes an option that every effect class allows.
func option(apply func(*engine.Settling)) SettleOption {
	return SettleOption{func(s *engine.Settling, _ Effect) error {
		apply(s)
		return nil
	}}
}

// Final stores the answer of this run, whatever its status. Every retry gets the answer:
// a 5xx that will not change, or a 403 that is final. With it the rows of a [Transactional] run
// are rolled back, as with every refusal. A panic, a refused stream or an invalid status is still not stored.
func Final() SettleOption { return option(func(s *engine.Settling) { s.Final = true }) }

// Release ends this run without a stored answer, whatever its status: the key is
// released, and the next call runs again. A [Transactional] run is rolled back. A Keyed
// or Opaque run counts as one that may have had effects. With Release an [Opaque] handler
// says that running again does no harm. Release wins over [Final].
func Release() SettleOption { return option(func(s *engine.Settling) { s.Release = true }) }

// KeepRows commits the rows of a [Transactional] run, and those of the completion hooks of a [Keyed] run, also if
// the stored answer has a status of 400 or above. Without it a refusal has no effect: its rows are rolled back, and its
// hooks do not run. It is for rows about the refusal itself, such as a list of declined orders. Rows that say that
// something happened do not belong under a 4xx, which callers take for proof that nothing did.
//
// It does nothing to an answer below 400, which commits anyway, or to one that is not stored. In an [Opaque] run, which
// has no rows, it is [ErrWrongEffect].
func KeepRows() SettleOption {
	return SettleOption{func(s *engine.Settling, e Effect) error {
		if e == Opaque {
			return ErrWrongEffect
		}
		s.KeepRows = true
		return nil
	}}
}

// NotRetryable tells the caller that no retry can help, whatever the answer's status: Idempotency-Should-Retry is
// false. The stored answer does not change. A handler uses it if a service that it called said so. A typed handler
// only has to return that service's error ([wire.ErrNotRetryable]).
func NotRetryable() SettleOption { return option(func(s *engine.Settling) { s.NotRetryable = true }) }

// DeadLetter says that the work was given up, and that this run stored or sent the report of
// that. People find its key by [store.ListRequest].DeadLetters, until somebody forgets the key or a
// sweep deletes it. It counts only for a run whose answer is stored. Package inbox uses it, and so
// do adapters for consumers of other kinds.
func DeadLetter() SettleOption {
	return option(func(s *engine.Settling) { s.DeadLetter = true })
}

// Reference stores text instead of the answer, together with the answer's status. It is for answers that hold
// secrets. A retry gets the answer that [Route].Render makes from text, or response-gone if Render is nil. Text may
// be empty. If there are several References, the last counts. A text of more than [MaxReferenceBytes] wraps
// [ErrArgument].
func Reference(text string) SettleOption {
	return SettleOption{func(s *engine.Settling, _ Effect) error {
		if len(text) > MaxReferenceBytes {
			return fmt.Errorf("%w: a reference of %d bytes, the most is %d", ErrArgument, len(text), MaxReferenceBytes)
		}
		s.Reference = &text
		return nil
	}}
}

// settleBy settles a run as the error of a typed function says, and returns err. If an
// option cannot be applied it returns another error, which is not a StatusError: the run
// failed.
func settleBy(ctx context.Context, err error) error {
	if errors.Is(err, wire.ErrNotRetryable) {
		_ = Settle(ctx, NotRetryable()) // outside a run there is nothing to settle
	}
	var status *StatusError
	if !errors.As(err, &status) || len(status.Settle) == 0 {
		return err
	}
	if bad := Settle(ctx, status.Settle...); bad != nil && !errors.Is(bad, ErrNoRun) { // a request without a key needs no run
		return fmt.Errorf("server: StatusError.Settle: %w (of %v)", bad, status.Error())
	}
	return err
}

const unrendered = "The request took effect before, and the service cannot make its answer again now. Send the same request with the same key again."

// render answers a retry from the reference that the first run left.
func (h *guarded) render(w http.ResponseWriter, r *http.Request, c *call, status int, reference string) {
	response, err := h.route.Render(r, status, reference)
	var envelope []byte
	if err == nil {
		envelope, err = h.guard.envelope(response)
	}
	if err != nil {
		h.refuse(w, r, c, outcome{Code: wire.StoreUnavailable, RetryAfter: time.Second, Err: err, Detail: unrendered})
		return
	}
	h.replay(w, r, &store.Answer{Status: response.Status, Envelope: envelope})
}
