package store

import (
	"context"
	"time"
)

// An OperatorStore is the part of a [Store] that decides for people and reconcilers: it has the moves that no request
// makes. Each move is a compare-and-set on the fence. A move with an [Audit] is written to the audit log in the same
// transaction. A [Reader] finds the records that need a decision.
type OperatorStore interface {
	// Resolve moves a record that is still at fence req.From to req.To. The record must be unknown, quarantined, or in
	// progress past its lease. Its fence grows by one, and it gets the RecoveryAttempts and MaybeRan of req. If the
	// record has moved on, Resolve returns the present record, and false; [ErrNotFound] if it is gone.
	Resolve(ctx context.Context, req ResolveRequest) (Record, bool, error)

	// Forget deletes a record that is still at fence from and not in progress within its lease, and returns it as it
	// was. It deletes tombstones and completed records too: the key can run again. If the record has moved on, Forget
	// returns the present record, and false; [ErrNotFound] if it is gone.
	Forget(ctx context.Context, id ID, from int64, by Audit) (Record, bool, error)

	// Defer sets LeaseUntil of an unknown record that is still at fence from, and whose LeaseUntil has passed, to now
	// + d. If many callers compete, one wins: only that caller may ask about the record until then.
	Defer(ctx context.Context, id ID, from int64, d time.Duration) (won bool, err error)
}

// A ResolveRequest decides about a key that no run can settle.
type ResolveRequest struct {
	ID   ID
	From int64 // the fence for which the decision was made
	// To is StateCompleted, StateReleased or StateCancelled.
	To State
	// Token replaces the owner's token. It is random, so that a resolution
	// repeated after a lost answer finds its own result.
	Token Token
	// Answer, ReplayFor and KeepAnswer are as in a [Settlement], for
	// StateCompleted.
	Answer                Answer
	ReplayFor, KeepAnswer time.Duration
	// Keep: a tombstone stays as long as one of [CancelRequest].
	Keep time.Duration
	// RecoveryAttempts is the number of owners that count as dead from now on, at least 0.
	RecoveryAttempts int
	// MaybeRan is the record's MaybeRan from now on, and so decides the fate that an undo is told.
	MaybeRan bool
	By       Audit
}

// An Audit names the person or program that acts, and the reason.
type Audit struct {
	Verb   Verb
	Actor  string // 1 to [MaxActorBytes] bytes
	Reason string // 1 to [MaxReasonBytes] bytes
}

// The limits of an [Audit].
const (
	MaxActorBytes  = 128
	MaxReasonBytes = 1024
)

// A Verb is the action on a key that an audit entry records.
type Verb string

// The verbs.
const (
	VerbResolve Verb = "resolve"
	VerbForget  Verb = "forget"
)

// An AuditEntry is one line of the audit log.
type AuditEntry struct {
	// Number grows from entry to entry. 0: the store does not tell.
	Number int64
	At     time.Time // the store's clock
	ID     ID
	Audit

	From  State
	To    State // 0: forgotten
	Fence int64 // after the move; for a forgotten record, its last fence
}
