package server

import (
	"context"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// InboundKey returns the key of the run as it arrived: the key in the request's
// Idempotency-Key header, the key given to [Do], or the key of an inbox's message.
// Use it to find what the caller asks for, together with the scope: another
// caller may use the same key. The parent key of the run's own calls is another
// key, the hop key; see [childkey.FromContext].
//
// It returns false outside a run.
func InboundKey(ctx context.Context) (childkey.Key, bool) {
	if a := engine.From(ctx); a != nil {
		return a.Call().Key, true
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
// from an owner that was replaced. It is 0 outside a run, and at least 1 inside. It is also 0 in
// a run whose claim is committed with its work ([Route].OneCommit).
//
// In a [Transactional] run the claim may not be durable yet. Then Fence blocks until it is, for a
// write of the store. If that fails, for [Config.StoreTimeout] at most, Fence returns 0 and the
// run's ctx ends with cause [ErrLeaseLost]. The later claims of a route that has asked for its
// fence are durable before their runs begin.
func Fence(ctx context.Context) int64 {
	if a := engine.From(ctx); a != nil {
		return a.Fence()
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
// In a [Transactional] run Barrier is part of the transaction. The forward call cannot begin while the undo runs. An
// undo that rolls back leaves no tombstone. In other runs the tombstone is durable when Barrier returns. A second
// call in the same run returns the same fate. An answer of 2xx carries the fate to the caller, in Idempotent-Forward,
// and so does its replay. A replay that [Route].Render made does not.
//
// On [ErrForwardInProgress] or an error of the store, return from the handler.
// The undo is released and answered with 409 or 503, and a retry runs it again.
// Other errors are [ErrNoRun] and [ErrNoForwardKey].
func Barrier(ctx context.Context) (Fate, error) {
	return engine.Barrier(ctx)
}
