package store

import (
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// An EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events. Each call that reaches the store ends with one of the first five.
const (
	EventMiss       EventKind = iota // the call ran
	EventHit                         // the call was answered with the stored answer
	EventMismatch                    // refused: key-reused
	EventInProgress                  // refused: in-progress
	EventRefused                     // refused otherwise; Code says why

	EventWaitTimeout // a call waited for another caller's run, and was refused with in-progress
	EventTakeOver    // a dead owner's key was taken over
	EventLeaseLost   // a run lost its lease, as far as it knows
	EventUnknown     // a key became outcome-unknown
	EventTombstone   // a key completed without an answer that can be replayed
	EventQuarantined // a key was quarantined
	EventStoreError  // a call to the store failed; Err says how
	EventConflict    // a transaction was rolled back by a conflict and is repeated
	EventSettleRetry // an outcome could not be recorded and is sent again
	EventPanic       // a handler panicked or ended its goroutine
	EventCacheHit    // a call was answered from the cache, without the store
	EventResolved    // an unknown or quarantined key was resolved, by a person or a reconciler
	EventForgotten   // a record was deleted by a person
	EventReconcile   // a reconciler was asked; Err if it failed
	EventSealError   // an answer or memo could not be sealed, or opened; Err says how
	EventRedactError // Route.Redact failed, and the answer is not stored; Err says how
	EventSweepError  // Guard.RunSweeper failed, and tries again; Err says how

	// EventFailed: a run failed. Its handler answered with a 5xx or an error, or panicked; or its answer
	// could not be recorded, and Err says why. A run that only asks for a retry, as with a 429, did not fail.
	EventFailed

	EventClaimed // a key was claimed; Duration is the time of the store
	EventWaited  // a call waited for another's run; Duration is how long it took in all
	EventSettled // a run was completed; Duration is how long the key was pending, since its first claim
	EventSwept   // Guard.RunSweeper deleted Count records; Duration is the time of the store

	// The kinds below are the ends of deliveries of an inbox, one for each. Route is "inbox CONSUMER". Count is which
	// attempt at handling the message the delivery made, or 0 if it made none. Duration is how long ago the message was
	// published, or 0 if inbox.Message does not tell. Their ctx is that of Inbox.Handle.

	EventMessageRan       // the message was handled
	EventMessageDuplicate // it was handled, or was a dead letter, before
	EventMessageFailed    // it was not handled, and the broker delivers it again; Err says why
	EventMessageDead      // it became a dead letter; Err is the cause
	EventMessageBusy      // another delivery of it is being handled, and the broker delivers it again

	// EventKinds is the number of kinds, for arrays by kind.
	EventKinds
)

var eventNames = [EventKinds]string{
	EventMiss: "miss", EventHit: "hit", EventMismatch: "mismatch", EventInProgress: "in_progress", EventRefused: "refused",
	EventWaitTimeout: "wait_timeout", EventTakeOver: "take_over", EventLeaseLost: "lease_lost", EventUnknown: "unknown",
	EventTombstone: "tombstone", EventQuarantined: "quarantined", EventStoreError: "store_error", EventConflict: "conflict",
	EventPanic: "panic", EventCacheHit: "cache_hit",
	EventSettleRetry: "settle_retry", EventResolved: "resolved", EventForgotten: "forgotten", EventReconcile: "reconcile", EventSealError: "seal_error",
	EventRedactError: "redact_error", EventFailed: "failed", EventClaimed: "claimed", EventWaited: "waited", EventSettled: "settled",
	EventSweepError: "sweep_error", EventSwept: "swept",
	EventMessageRan: "message_ran", EventMessageDuplicate: "message_duplicate", EventMessageFailed: "message_failed",
	EventMessageDead: "message_dead", EventMessageBusy: "message_busy",
}

// String returns the name of the kind in snake case, as metrics show it.
func (k EventKind) String() string {
	if k < EventKinds {
		return eventNames[k]
	}
	return "event"
}

// An Event is one event of a guard. It contains no key, scope or body.
type Event struct {
	Kind     EventKind
	Route    string        // server.Route.Name; "" if the event does not belong to one route
	ID       ID            // for traces and logs; has too many values for a metric's label
	Parent   ID            // the caller's record, as the call of an [EventClaimed] named it; zero: none
	Code     wire.Code     // of a refusal
	Duration time.Duration // where the kind says so
	Count    int           // where the kind says so
	Err      error         // where the kind says so
	Trace    string        // of an [EventHit]: server.Tracer.Trace of the run whose answer is repeated; "" if it had none
}

// A CallEvent is the beginning of a call, or of its run.
type CallEvent struct {
	Route  string       // server.Route.Name
	Effect Effect       // of the route
	Key    childkey.Key // as it arrived; show its Digest
	ID     ID           // of the record
	Parent ID           // the caller's record, as the call names it; zero: none
	Fence  int64        // of the run; 0 at the beginning of a call. More than 1: an earlier run died, or asked for another run
}
