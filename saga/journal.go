package saga

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// The errors that journals return, wrapped where a fact is added. Any other
// error means that the journal could not be reached or did not do what was
// asked: the call has changed nothing.
var (
	// ErrNotFound: there is no such saga.
	ErrNotFound = errors.New("saga: not found")
	// ErrLeaseLost: the engine is no longer the saga's owner, or its lease is
	// over; nothing changed.
	ErrLeaseLost = errors.New("saga: lease lost")
	// ErrFateUnknown: a write was sent, and whether it is durable is not known.
	// It may also become durable later.
	ErrFateUnknown error = &againError{"saga: fate of the write unknown"}
	// ErrRefused: the journal refuses the request, and would refuse it again: an
	// argument is bad, its tables are missing, or its role lacks a right. Nothing changed.
	ErrRefused = errors.New("saga: refused by the journal")
	// ErrCorrupt: what is stored cannot be read. Methods that return records
	// say it of the one that it is true of; see [Record].Corrupt.
	ErrCorrupt = errors.New("saga: corrupt record")
	// ErrNewer: what is stored has a part that this build does not know, as a
	// field of a newer build. An engine parks such a saga: it leaves it to builds
	// that know the part. A sealed saga whose key the process lacks is parked in the
	// same way. To this build the record is corrupt, so that ErrNewer
	// matches [ErrCorrupt] too.
	ErrNewer error = newerError{}
)

type newerError struct{}

func (newerError) Error() string { return "saga: stored by a newer build" }

func (newerError) Is(target error) bool { return target == ErrCorrupt }

// A Journal remembers sagas and who drives them. Its methods are atomic and
// safe for concurrent use by many processes; each is one short transaction of
// its own that is durable when the method returns nil, and none holds anything
// between calls. The journal's own clock decides every lease, wake-up and
// retention. sagatest.TestJournal is the law in full.
//
// A write whose ctx ends before its fate is known returns [ErrFateUnknown], and
// is not cancelled under way.
type Journal interface {
	OperatorJournal

	// Plan stores the plan under its name and version if there is none, and
	// returns what is stored.
	Plan(ctx context.Context, plan PlanRecord) (PlanRecord, error)

	// Beat gives the engine a lease of that length from now, or extends the
	// one that it has: one statement for all its sagas. It returns
	// [ErrLeaseLost] if the engine's lease has ended: it does not come back.
	Beat(ctx context.Context, engine EngineID, lease time.Duration) error

	// Leave ends the engine's lease, for good. Its sagas are orphans at once,
	// and do not count it as a death. It says the same of a lease that has ended
	// already: sagas that were claimed from the engine since then do not count it any
	// more when they are claimed next.
	Leave(ctx context.Context, engine EngineID) error

	// Start stores a new saga: Running, Revision 1. If the request names an engine,
	// Fence is 1 and FirstClaimedAt is now; else both are zero. If there is one with its ID it returns that as
	// it stands, and false; but true again to the engine that started it, as
	// long as nothing else was written: the answer was lost.
	Start(ctx context.Context, req StartRequest) (Record, bool, error)

	// Append writes what the owner's saga came to, all of it or nothing. It
	// returns [ErrLeaseLost] unless the saga is Running or Compensating, at the
	// owner's fence and engine, and one revision before w's. A write that is
	// repeated at its own revision returns nil again, also where it made the
	// saga final or gave the saga up. An owner whose lease ran out, but whom no one
	// took over, still owns the saga. An engine's ctx does not end before the answer:
	// to close the journal must end what waits.
	Append(ctx context.Context, o Owner, w Write) error

	// Claim makes the engine the owner of at most req.Limit orphans, and returns
	// them. An orphan is a saga of one of req.Plans, Running or Compensating, that
	// has no engine and is past its WakeAt, or whose engine has no lease.
	//
	// The plans share req.Limit fairly: the saga of each plan that has been an orphan
	// longest comes first, then the second of each plan, and so on. No more than
	// req.PerPlan are of one plan.
	//
	// The fence and the revision of each grow by one. Its WakeAt becomes zero. Its
	// Deaths becomes the number of engines whose lease ended under it since it last
	// got on, without those that called Leave, before or after. The Clean that Claim
	// returns is that of before the claim. After the claim it is false.
	//
	// A saga whose engines died n times before the last one is no orphan for some time
	// after the lease of the last one has ended: at least req.Backoff, twice as long for
	// each further death up to the fifth, and at most twice that. The part above the
	// least depends on the saga's ID, so that sagas whose engine died together do not
	// come back together.
	//
	// Of many claims each orphan goes to one. None waits for another, nor for a write: a
	// saga that is being written may be passed over. A parked saga is claimed only if its
	// plan is among req.Parked; then it is parked no more, and not Clean. Claim returns [ErrLeaseLost] if the
	// engine itself has no lease.
	Claim(ctx context.Context, req ClaimRequest) ([]Record, error)

	// Read returns the saga, or [ErrNotFound].
	Read(ctx context.Context, id ID) (Record, error)

	// Sweep deletes at most limit final sagas that are past ExpiresAt, and
	// leases that ended long ago and that no Running or Compensating saga names. It returns
	// how many sagas it deleted.
	Sweep(ctx context.Context, limit int) (int, error)

	// Stats counts the sagas and tells the age of the oldest that is not finished. No
	// count exceeds [StatsLimit], so that Stats is quick whatever the number of sagas.
	Stats(ctx context.Context) (Stats, error)
}

// An OperatorJournal is the part of a [Journal] that people use. What is done
// in somebody's name is a compare-and-set on the revision, and is written to
// the audit log in the same transaction.
type OperatorJournal interface {
	// List returns at most req.Limit sagas that match, by CreatedAt and then
	// ID, without Input and results. It may read every unfinished saga.
	List(ctx context.Context, req ListRequest) ([]Record, error)

	// Change applies c to a saga that is still at revision c.Revision, takes
	// it from its owner (no engine, fence and revision plus one, no deaths, no
	// StuckOn, no Parked; ResumedAt is now), and returns it. Where there is work to do, WakeAt is
	// now: the change wakes a saga that sleeps. Clean stays as it is. A fence of 0 stays: no
	// engine had the saga, and the first one is to know it. If the saga has moved on
	// it returns it as it stands, and false; [ErrNotFound] if it is gone.
	//
	// A Change with Wake takes the saga from nobody: see there. It returns false for a
	// saga that is not Running or Compensating, too.
	Change(ctx context.Context, c Change) (Record, bool, error)

	// AuditLog returns at most limit entries, the youngest first; those of one
	// saga if id is not the zero ID. Entries outlive their sagas.
	AuditLog(ctx context.Context, id ID, limit int) ([]AuditEntry, error)
}

// An Owner is one engine's hold on a saga. Every write of the engine names it.
type Owner struct {
	ID     ID
	Engine EngineID
	Fence  int64
}

// A StartRequest asks for a new saga.
type StartRequest struct {
	ID        ID // IDOf(Scope, Name, Key)
	Scope     string
	Key       childkey.Key
	Name      string
	Version   int
	Plan      PlanHash
	InputHash [32]byte
	Input     []byte
	Engine    EngineID // zero: whoever claims it
}

// A Write is what an owner's work came to. Its zero fields but Revision leave
// what there is, unless they say otherwise.
type Write struct {
	// Revision is that of the saga after the write.
	Revision int64
	// Entries replace those of the same step and direction, and follow the
	// others where there are none. If there are any, Deaths becomes 0.
	Entries []Entry
	// Status is the new one; 0 leaves it. Compensating sets Turned, a final one
	// or Stuck sets FinishedAt.
	Status Status
	// Cause and StuckOn are the saga's from now on.
	Cause, StuckOn *Failure
	// DeadlineAt is the saga's from now on.
	DeadlineAt time.Time
	// WakeAt, unless it is zero, gives the saga up: it has no engine after the write,
	// it is Clean, and nobody can claim it before WakeAt. The fence stays. Only an owner
	// under whom no call runs, and whose Entries say all, may do that. WakeAt goes with
	// no Status that ends the saga.
	WakeAt time.Time
	// Result is a completed saga's.
	Result []byte
	// Keep: ExpiresAt = now + Keep; for a final status.
	Keep time.Duration
	// Park leaves the saga to another build: it has no engine from now on, and
	// this is its Parked. All other fields but Revision are zero then.
	Park *Failure
}

// A ClaimRequest asks for orphans.
type ClaimRequest struct {
	Engine EngineID
	Plans  []PlanHash // that the engine can drive; none gets nothing
	Parked []PlanHash // those of Plans whose parked sagas it wants too
	Limit  int        // at least 1
	// PerPlan is how many of them at most are of one plan. Zero means Limit.
	PerPlan int
	// Backoff is the least wait after the second death under a saga; see
	// [Journal].Claim. Zero means that no saga waits.
	Backoff time.Duration
}

// A ListRequest says which sagas [OperatorJournal].List returns.
type ListRequest struct {
	// Statuses are those to list; none means Running, Compensating and Stuck.
	Statuses []Status
	// Name is the saga's; "" means any.
	Name string
	// Engine lists the unfinished sagas of that engine; zero means any.
	Engine EngineID
	// Orphans lists Running and Compensating sagas that no engine with a lease
	// drives, whatever their WakeAt.
	Orphans bool
	// Parked lists the sagas that are parked.
	Parked bool
	// After is where the page before ended; the zero Cursor begins.
	After Cursor
	Limit int // at least 1
}

// A Cursor is a place in the order of a list.
type Cursor struct {
	CreatedAt time.Time
	ID        ID
}

// A Change is what a verb does to a saga.
type Change struct {
	ID       ID
	Revision int64   // that the decision was made at
	Entries  []Entry // as in a [Write]
	Status   Status  // required, but with Wake
	Cancel   bool    // sets the record's Cancel; false leaves it
	// Wake has a saga that is Running or Compensating try at once what it waits to try
	// again. Only Entries go with it. The saga stays its owner's: Engine, Fence, Revision and
	// all else stay, but a WakeAt that is still to come is now. Its owner finds the line in
	// the audit log.
	Wake bool
	// Deadline: DeadlineAt = now + Deadline; 0 leaves it.
	Deadline time.Duration
	Keep     time.Duration // as in a [Write]
	By       Audit
}

// StatsLimit is the highest count in a [Stats]. It means that many sagas, or more.
const StatsLimit = 10_000

// Stats is what [Journal].Stats returns.
type Stats struct {
	ByStatus map[Status]int64
	// Orphans counts the sagas that are Running or Compensating, that no engine with a
	// lease drives, and that are past their WakeAt. They wait for an engine.
	Orphans int64
	// Parked are those of Orphans that a build left to another one.
	Parked int64
	// OrphansOf counts the others by plan. A plan that has none is missing.
	OrphansOf map[PlanHash]int64
	// Asleep counts the sagas that are Running or Compensating, and that nobody may claim
	// before their WakeAt.
	Asleep           int64
	OldestUnfinished time.Duration // since CreatedAt; 0 if there is none
}

type stayKey struct{}

// Stays reports whether whoever calls a [Journal] with ctx has a goroutine of its own for
// that, as an engine's Start has: the journal may then wait for a write that it has sent
// although ctx ends, and need not leave it behind in another.
func Stays(ctx context.Context) bool { return ctx.Value(stayKey{}) != nil }
