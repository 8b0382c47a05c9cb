package journal

import (
	"context"
	"errors"
	"time"
)

// ErrNoIndex is wrapped by the error of [Reader].Browse if the journal could answer only by reading
// every saga: an optional index is missing. The error says how to make it.
var ErrNoIndex = errors.New("saga: the journal has no index for this list")

// A Reader shows sagas to people: to an operations page or a command line. It only reads, and each answer
// has a bound in time that the journal's database itself keeps. So a person who looks cannot slow
// down the engines for long.
//
// No method returns an input, a result, or the body of an answer.
type Reader interface {
	// Show returns one saga with its entries, or [ErrNotFound].
	Show(ctx context.Context, id ID) (Record, error)

	// Browse returns at most req.Limit sagas that match, the youngest first.
	Browse(ctx context.Context, req BrowseRequest) ([]Record, error)

	// Plan returns a plan that sagas were started with, or [ErrNotFound].
	Plan(ctx context.Context, name string, version int) (PlanRecord, error)

	// Plans returns all plans, by name and version. There is one for each version of each definition.
	Plans(ctx context.Context) ([]PlanRecord, error)

	// Stats is that of [Journal].
	Stats(ctx context.Context) (Stats, error)

	// Estimate returns the size of the journal, roughly and at once.
	Estimate(ctx context.Context) (Estimate, error)

	// AuditPage returns at most req.Limit entries of the audit log that match, the youngest first.
	AuditPage(ctx context.Context, req AuditRequest) ([]AuditEntry, error)
}

// A BrowseRequest says which sagas [Reader].Browse returns.
type BrowseRequest struct {
	// Statuses are the statuses to list; none means any. A list of unfinished statuses alone (Running, Compensating
	// and Stuck) covers all times. Any other list is bounded by From and To.
	Statuses []Status
	// From and To bound the CreatedAt of the sagas: From <= CreatedAt < To. The zero To means now. The zero From
	// means all times for a list of unfinished statuses, and else an hour before To.
	From, To time.Time
	Name     string // the definition's; empty means any
	// StuckOn lists the sagas that are stuck on this step; empty means any. It implies Stuck.
	StuckOn string
	// Before is the end of the previous page, which is its last saga's CreatedAt and ID. The zero
	// Cursor is the beginning.
	Before Cursor
	Limit  int // at least 1
}

// An Estimate is the size of a journal. The numbers are those of the database's own statistics: they may
// be some minutes old, and are not exact.
type Estimate struct {
	Sagas int64 // negative: unknown
	Bytes int64 // with indexes; 0 if the journal cannot tell
	// SweepLag is how long the saga that is first to be swept has waited for it; 0 if none waits.
	SweepLag time.Duration
}

// An AuditRequest says which entries of the audit log [Reader].AuditPage returns.
type AuditRequest struct {
	ID    ID     // of one saga; the zero ID means all
	Actor string // empty means any
	// Before is the [AuditEntry].Number of the last entry of the previous page; 0 is the beginning.
	Before int64
	Limit  int // at least 1
}
