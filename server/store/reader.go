package store

import (
	"context"
	"errors"
	"time"
)

// ErrNoIndex is wrapped by the error of [Reader].Browse if the store could answer only by reading
// every record: an optional index is missing. The error says how to make it.
var ErrNoIndex = errors.New("server: the store has no index for this list")

// ErrTooSlow is wrapped by the error of a [Reader] whose store had no answer in the time that it gives to people who
// look. A shorter window, or fewer conditions, may help.
var ErrTooSlow = errors.New("server: the store took too long to find this")

// A Reader shows records to people: to an operations page or a command line. It only reads, and each
// answer has a bound in time that the store itself keeps. So a person who looks cannot slow down the
// requests of a service for long.
//
// No method returns an envelope, a memo, a fingerprint or a token: see [Record.Public]. A Reader is safe for concurrent
// use. A request that no Reader can answer is an error wrapping [ErrArgument]. servertest.TestReader is the conformance
// suite.
type Reader interface {
	// Show returns one record, or [ErrNotFound].
	Show(ctx context.Context, id ID) (Record, error)

	// List returns at most req.Limit records that match, the oldest first by CreatedAt and then ID: keys that need a
	// decision, dead letters, or the children of a record. Without an index of children a request with a Parent may be
	// an [ErrNoIndex].
	List(ctx context.Context, req ListRequest) ([]Record, error)

	// Browse returns at most req.Limit records of any state that match, the youngest first by CreatedAt and then ID.
	Browse(ctx context.Context, req BrowseRequest) ([]Record, error)

	// Attention counts the keys that need a person. It reads these keys and no others, however many there are, so that
	// an alarm may ask often.
	Attention(ctx context.Context) (Attention, error)

	// Estimate returns the size of the store, roughly and at once.
	Estimate(ctx context.Context) (Estimate, error)

	// AuditPage returns at most req.Limit entries of the audit log that match, the youngest first. Entries outlive their
	// records.
	AuditPage(ctx context.Context, req AuditRequest) ([]AuditEntry, error)
}

// A ListRequest says which records [Reader].List returns. Its zero value, with a Limit, asks for all keys that need a
// decision.
type ListRequest struct {
	// States are the reasons for a decision: [StateUnknown], [StateQuarantined] and [StateInProgress]. A record in
	// progress is listed if its latest claim was Opaque and its lease has ended. No later call has used the key, so
	// nobody knows what the dead run did. (A dead run of another class needs nobody: the next call runs.) No States
	// means all three.
	States []State
	// DeadLetters lists the completed keys of dead letters ([Settlement].DeadLetter) instead, until they are forgotten
	// or swept. States do not count then.
	DeadLetters bool
	// Parent lists the records that were claimed on behalf of this record ([Record].Parent) instead. States may then be
	// any, and none means all; also records that are in progress within their lease are listed. The zero ID means none.
	Parent ID
	// Effect is the effect class of the latest claim; 0 means any.
	Effect Effect
	// Route is the record's Route; empty means any. Only Opaque and quarantined records have a Route, unless the store
	// keeps that of every claim.
	Route string
	// After is the end of the previous page; the zero Cursor is the beginning.
	After Cursor
	// Limit is at least 1.
	Limit int
}

// A Cursor is a place in the order of a list.
type Cursor struct {
	CreatedAt time.Time
	ID        ID
}

// AttentionLimit is how many keys [Reader].Attention counts at least, if there are so many: the oldest. A store may
// count no further.
const AttentionLimit = 2500

// Attention is the number of keys that need a person, by the reason. Above [AttentionLimit] in all it may be that number.
type Attention struct {
	Unknown, Quarantined, DeadLetters int64
	Oldest                            time.Duration // since CreatedAt of the oldest of them; 0 if there is none
}

const (
	// DefaultWindow is the length of the window of a [BrowseRequest] that has no From.
	DefaultWindow = time.Hour
	// MaxYoung is how many of the youngest records [Reader].Estimate reads at most.
	MaxYoung = 10_000
)

// A BrowseRequest says which records [Reader].Browse returns.
type BrowseRequest struct {
	// From and To bound the CreatedAt of the records: From <= CreatedAt < To. Browse reads the
	// records of the window until it has found Limit that match. The zero To means now. The zero From means
	// an hour before To ([DefaultWindow]).
	From, To time.Time
	States   []State // none means any
	Effect   Effect  // 0 means any
	Route    string  // as [Record].Route; empty means any
	// Before is the end of the previous page, which is its last record's CreatedAt and ID. The zero
	// Cursor is the beginning.
	Before Cursor
	Limit  int // at least 1
}

// An Estimate is the size of a store. The numbers are those of the store's own statistics: they may be
// some minutes old, and are not exact.
type Estimate struct {
	Records int64 // negative: unknown
	Bytes   int64 // with indexes and answers; 0 if the store cannot tell
	// SweepLag is how long the record that is first to be swept has waited for it; 0 if none waits.
	SweepLag time.Duration
	// AsyncStandbys is as in [Stats].
	AsyncStandbys int
	// Young is how many of the youngest records Estimate has read: at most [MaxYoung], or all records if
	// the store counts them anyway. ByState counts these by their state, and OldestInProgress is the age of the
	// oldest of these that is in progress. A state without records is missing in ByState. Young is 0 and ByState
	// is nil if an index is missing, as with [ErrNoIndex].
	Young            int
	ByState          map[State]int
	OldestInProgress time.Duration
}

// An AuditRequest says which entries of the audit log [Reader].AuditPage returns.
type AuditRequest struct {
	ID    ID     // of one key; the zero ID means all
	Actor string // empty means any
	// Before is the [AuditEntry].Number of the last entry of the previous page; 0 is the beginning.
	Before int64
	Limit  int // at least 1
}
