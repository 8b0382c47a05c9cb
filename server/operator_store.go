package server

import (
	"context"
	"time"
)

// An OperatorStore is the part of a [Store] that people and reconcilers use:
// what needs somebody, and the moves that no request makes. Each move is a
// compare-and-set on the fence, and what is done in somebody's name is written
// to the audit log in the same transaction.
type OperatorStore interface {
	// List returns at most req.Limit records that match, by CreatedAt and then
	// ID, their answers left out. It may read the whole table.
	List(ctx context.Context, req ListRequest) ([]Record, error)

	// Resolve moves a record that is still at fence req.From, and unknown,
	// poisoned or in progress past its lease, to req.To; its fence grows by
	// one, and its Deaths and MaybeRan are those of req. If the record has moved
	// on it returns it as it stands, and false; [ErrNotFound] if it is gone.
	Resolve(ctx context.Context, req ResolveRequest) (Record, bool, error)

	// Forget deletes a record that is still at fence from and not in progress
	// within its lease, and returns it as it was; a tombstone and a completed
	// record too: the key can run again. If the record has moved on it returns
	// it as it stands, and false; [ErrNotFound] if it is gone.
	Forget(ctx context.Context, id ID, from int64, by Audit) (Record, bool, error)

	// Defer sets LeaseUntil of an unknown record that is still at fence from,
	// and whose LeaseUntil has passed, to now + d. Of many callers one wins:
	// it alone may look into the matter until then.
	Defer(ctx context.Context, id ID, from int64, d time.Duration) (won bool, err error)

	// AuditLog returns at most limit entries, the youngest first; those of one
	// key if id is not the zero ID. Entries outlive their records.
	AuditLog(ctx context.Context, id ID, limit int) ([]AuditEntry, error)
}

// A ListRequest says which records [OperatorStore].List returns.
type ListRequest struct {
	// States are the states to list; none means unknown, poisoned and in
	// progress.
	States []State
	// Effect is that of the latest claim; 0 means any.
	Effect Effect
	// Route is the record's; empty means any. Only Opaque and buried records
	// have one.
	Route string
	// Running lists records in progress within their lease too, if they were
	// first claimed at least so long ago. 0 means that only dead ones are
	// listed.
	Running time.Duration
	// After is where the page before ended; the zero Cursor begins.
	After Cursor
	// Limit is at least 1.
	Limit int
}

// A Cursor is a place in the order of a list.
type Cursor struct {
	CreatedAt time.Time
	ID        ID
}

// A ResolveRequest ends a matter that no run can end.
type ResolveRequest struct {
	ID   ID
	From int64 // the fence that the decision was made at
	// To is StateCompleted, StateReleased or StateCancelled.
	To State
	// Token replaces the owner's: random, so that a resolution repeated after
	// a lost answer knows itself.
	Token Token
	// Answer, ReplayFor and KeepAnswer are as in a [Settlement], for
	// StateCompleted.
	Answer                Answer
	ReplayFor, KeepAnswer time.Duration
	// Keep: a tombstone stays as long as one of [CancelRequest].
	Keep time.Duration
	// Deaths is how many owners count as died from now on, at least 0.
	Deaths int
	// MaybeRan is what an undo is told from now on.
	MaybeRan bool
	By       Audit
}

// An Audit says in whose name something is done, and why.
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

// A Verb is what was done to a key in somebody's name.
type Verb string

// The verbs.
const (
	VerbResolve Verb = "resolve"
	VerbForget  Verb = "forget"
)

// An AuditEntry is one line of the audit log.
type AuditEntry struct {
	At time.Time // the store's clock
	ID ID
	Audit

	From  State
	To    State // 0: forgotten
	Fence int64 // after the move; of a forgotten record, its last
}
