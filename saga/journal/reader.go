package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// BrowseWindow is the time that a [BrowseRequest] without From covers, if it lists finished sagas too.
const BrowseWindow = time.Hour

// ErrNoIndex is wrapped by the error of [Reader].Browse if the journal could answer only by reading
// every saga: an optional index is missing. The error says how to make it.
var ErrNoIndex = errors.New("saga: the journal has no index for this list")

// ErrTooSlow is wrapped by the error of a [Reader] whose journal had no answer in the time that it gives to
// people who look. A narrower question may have an answer.
var ErrTooSlow = errors.New("saga: the journal took too long to find this")

// A Reader shows sagas to people: to an operations page or a command line. It only reads, and each answer
// has a bound in time that the journal's database itself keeps. So a person who looks cannot slow
// down the engines for long.
//
// No method returns an input, its hash, a result, the body of an answer or a trace context. A request that no
// journal can answer is refused with an error that wraps [ErrRefused].
type Reader interface {
	// Show returns one saga with its entries, or [ErrNotFound].
	Show(ctx context.Context, id ID) (Record, error)

	// Browse returns at most req.Limit sagas that match, the youngest first: by CreatedAt and then ID, both
	// downwards. With req.OldestFirst both go upwards. Scope, Key and Entries of the records are empty.
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
	// From and To bound the CreatedAt of the sagas: From <= CreatedAt < To. The zero To means that nothing is too young. The zero From
	// means all times for a list of unfinished statuses, and else [BrowseWindow] before To, or before now.
	From, To time.Time
	Name     string // the definition's; empty means any
	// StuckOn lists the sagas that are stuck on this step; empty means any. Statuses must then have Stuck, or be
	// empty. No other status is listed.
	StuckOn string
	// OldestFirst turns the order around, for people who look for what has waited longest. Only a list of unfinished
	// statuses alone can have it.
	OldestFirst bool
	// Before is the end of the previous page, which is its last saga's CreatedAt and ID: the page has the older
	// sagas, or the younger ones with OldestFirst. The zero Cursor is the beginning.
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

var allStatuses = []Status{Running, Compensating, Completed, Compensated, Stuck, Abandoned}

// Unfinished reports whether the request lists unfinished sagas alone.
func (r BrowseRequest) Unfinished() bool {
	return r.StuckOn != "" || len(r.Statuses) > 0 && !slices.ContainsFunc(r.Statuses, Status.Final)
}

// Normalize returns the request with its Statuses written out, each once and in order. A journal
// calls it first. A list that is bounded by From and To gets
// a From if it has a To. Without both, the journal counts [BrowseWindow] back by its own clock. The
// error wraps [ErrRefused] and names the field.
func (r BrowseRequest) Normalize() (BrowseRequest, error) {
	if err := r.check(); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	switch {
	case r.StuckOn != "":
		r.Statuses = []Status{Stuck}
	case len(r.Statuses) == 0:
		r.Statuses = slices.Clone(allStatuses)
	default:
		r.Statuses = slices.Compact(slices.Sorted(slices.Values(r.Statuses)))
	}
	if !r.To.IsZero() && r.From.IsZero() && !r.Unfinished() {
		r.From = r.To.Add(-BrowseWindow)
	}
	return r, nil
}

func (r BrowseRequest) check() error {
	for _, s := range r.Statuses {
		if !slices.Contains(allStatuses, s) {
			return fmt.Errorf("status %d", s)
		}
	}
	switch {
	case r.Limit <= 0:
		return fmt.Errorf("limit %d is not positive", r.Limit)
	case r.StuckOn != "" && len(r.Statuses) > 0 && !slices.Contains(r.Statuses, Stuck):
		return errors.New("StuckOn without the status Stuck")
	case r.OldestFirst && !r.Unfinished():
		return errors.New("OldestFirst with finished statuses")
	case !r.To.IsZero() && !r.From.Before(r.To):
		return fmt.Errorf("from %v is not before to %v", r.From, r.To)
	case !storable(r.Name):
		return errors.New("name is not text")
	case !storable(r.StuckOn):
		return errors.New("StuckOn is not text")
	}
	return nil
}

// Check returns an error wrapping [ErrRefused] if no page can be what the request says. The error
// names the field. A journal calls it first.
func (r AuditRequest) Check() error {
	switch {
	case r.Limit <= 0:
		return fmt.Errorf("%w: limit %d is not positive", ErrRefused, r.Limit)
	case r.Before < 0:
		return fmt.Errorf("%w: before %d is negative", ErrRefused, r.Before)
	case !storable(r.Actor):
		return fmt.Errorf("%w: actor is not text", ErrRefused)
	}
	return nil
}

// storable reports whether a database can compare text with its own.
func storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
