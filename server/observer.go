package server

import (
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// An Observer is told what a guard does; [Metrics] is one. Observe is called
// synchronously and from many goroutines: it must be fast, safe for concurrent
// use, and must not panic.
type Observer interface{ Observe(Event) }

// An EventKind is what happened.
type EventKind uint8

// The kinds of events. The first five are how a call ended: each call that
// comes as far as the store ends with one of them.
const (
	EventMiss       EventKind = iota // the call ran
	EventHit                         // the call was answered with the stored answer
	EventMismatch                    // refused: key-reused
	EventInProgress                  // refused: in-progress
	EventRefused                     // refused otherwise; Code says why

	EventWaitTimeout // a call waited for another's run, and was refused with in-progress
	EventTakeOver    // a dead owner's key was taken over
	EventLeaseLost   // a run lost its lease, as far as it knows
	EventUnknown     // a key became outcome-unknown
	EventTombstone   // a key completed without an answer that can be replayed
	EventPoisoned    // a key was quarantined
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
	EventSweepError  // something of what Guard.RunSweeper does failed, and is tried again; Err says how

	EventClaimed // a key was claimed; Duration is what the store took
	EventWaited  // a call waited for another's run; Duration is how long it took in all
	EventSettled // a run was completed; Duration is how long the key was pending, since its first claim
	EventSwept   // Guard.RunSweeper deleted Count records; Duration is what the store took

	eventKinds
)

var eventNames = [eventKinds]string{
	EventMiss: "miss", EventHit: "hit", EventMismatch: "mismatch", EventInProgress: "in_progress", EventRefused: "refused",
	EventWaitTimeout: "wait_timeout", EventTakeOver: "take_over", EventLeaseLost: "lease_lost", EventUnknown: "unknown",
	EventTombstone: "tombstone", EventPoisoned: "poisoned", EventStoreError: "store_error", EventConflict: "conflict",
	EventPanic: "panic", EventCacheHit: "cache_hit",
	EventSettleRetry: "settle_retry", EventResolved: "resolved", EventForgotten: "forgotten", EventReconcile: "reconcile", EventSealError: "seal_error",
	EventRedactError: "redact_error", EventClaimed: "claimed", EventWaited: "waited", EventSettled: "settled",
	EventSweepError: "sweep_error", EventSwept: "swept",
}

// String returns the name of the kind in snake case, as metrics show it.
func (k EventKind) String() string {
	if k < eventKinds {
		return eventNames[k]
	}
	return "event"
}

// An Event is one thing that a guard did. It holds no key, scope or body.
type Event struct {
	Kind     EventKind
	Route    string        // [Route.Name]; "" where no one route is concerned
	ID       ID            // for traces and logs; too many different ones for a metric's label
	Code     wire.Code     // of a refusal
	Duration time.Duration // where the kind says so
	Count    int           // where the kind says so
	Err      error         // where the kind says so
}

func (g *Guard) observeOutcome(c *call, out outcome) {
	e := Event{Route: c.route.Name, ID: c.id, Code: out.code, Err: out.err}
	switch {
	case out.replay != nil:
		e.Kind = EventHit
	case out.code == wire.KeyReused:
		e.Kind = EventMismatch
	case out.code == wire.InProgress:
		e.Kind = EventInProgress
		if out.waited {
			g.observe(Event{Kind: EventWaitTimeout, Route: c.route.Name, ID: c.id})
		}
	case out.code != "":
		e.Kind = EventRefused
	default:
		e.Kind = EventMiss
	}
	g.observe(e)
}
