package journal

import (
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// An Owner is one engine's ownership of a saga. Every write of the engine names it.
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
	Engine    EngineID // zero: any engine may claim the saga
	// At is when the saga may first be claimed: the WakeAt that it gets, if that is to come. It is for a request without
	// Engine. Zero means at once.
	At time.Time
	// Trace is the trace context of the call that starts the saga, of at most [MaxTraceBytes] visible
	// ASCII characters; "": none.
	Trace string
}

// A Write is the outcome of an owner's work. A zero field leaves the stored value, unless its
// comment says otherwise. Revision is required.
type Write struct {
	// Revision is that of the saga after the write, less its Wakes: the owner counts its own
	// writes from the revision at which it got the saga.
	Revision int64
	// Entries replace the entries of the same step and direction. New ones follow the others.
	// With any entries, RecoveryAttempts becomes 0.
	Entries []Entry
	// Status is the new one; 0 leaves it. Compensating sets FailedAt, a final one
	// or Stuck sets FinishedAt.
	Status Status
	// Cause and StuckOn are the saga's from now on.
	Cause, StuckOn *Failure
	// DeadlineAt is the saga's from now on.
	DeadlineAt time.Time
	// WakeAt, unless it is zero, gives the saga up. After the write the saga is Clean and has no
	// owner. No engine can claim it before WakeAt, unless a person woke it while the engine had
	// it ([Change].Wake). The fence stays. An owner may give the saga up only if no call of it
	// runs and its Entries are complete. With Stuck it only says this: WakeAt stays zero, and the owner after
	// a verb trusts the Entries. A Write with a final status must not have a WakeAt.
	WakeAt time.Time
	// Result is a completed saga's.
	Result []byte
	// Keep: ExpiresAt = now + Keep; for a final status.
	Keep time.Duration
	// Defer leaves the saga to another build. From then on the saga is without an engine, and Defer
	// is its Deferred. All other fields but Revision must be zero.
	Defer *Failure
}

// A ClaimRequest asks for unowned sagas.
type ClaimRequest struct {
	Engine   EngineID
	Plans    []PlanHash // that the engine can execute; without any, Claim returns no saga
	Deferred []PlanHash // the ones of Plans whose deferred sagas it wants too
	Limit    int        // at least 1
	// PerPlan is the greatest number of sagas of one plan. Zero means Limit.
	PerPlan int
	// Backoff is the least wait after the second death under a saga; see
	// [Journal].Claim. Zero means that no saga waits.
	Backoff time.Duration
}

// A ListRequest says which sagas [Journal].List returns: those that an engine owns, or those that are deferred.
type ListRequest struct {
	// Engine lists the Running and Compensating sagas of that engine. It must not be zero, unless Deferred is true.
	Engine EngineID
	// Deferred lists the sagas that are deferred, whose Engine is zero.
	Deferred bool
	// After is the end of the previous page. The zero Cursor means the first page.
	After Cursor
	Limit int // at least 1
}

// A Cursor is a place in the order of a list.
type Cursor struct {
	CreatedAt time.Time
	ID        ID
}

// A Change is the change that a verb makes to a saga.
type Change struct {
	ID       ID
	Revision int64   // at which the decision was made
	Entries  []Entry // as in a [Write]
	Status   Status  // required, except with Wake and with Plan
	Cancel   bool    // sets the record's Cancel; false leaves it
	// Wake makes a saga that is Running or Compensating retry its waiting calls at once. Only
	// Entries may go with it. The saga keeps its owner: Engine, Fence and the other fields stay.
	// Only Revision and Wakes grow by one, and a later WakeAt becomes now. The owner finds its
	// waits gone when it reads the saga again. If it gives the saga up before that, by a [Write] with a WakeAt, the saga
	// is due at once.
	Wake bool
	// Plan, unless it is zero, moves the saga to that plan of its definition, which is of Version. No other field may go
	// with it. The saga is taken from its owner, as by any change. Its Status stays, and what belongs to that: StuckOn
	// of a stuck saga, FinishedAt and DeadlineAt. A saga that no engine had yet keeps its WakeAt.
	Plan    PlanHash
	Version int
	// Deadline: DeadlineAt = now + Deadline; 0 leaves it.
	Deadline time.Duration
	Keep     time.Duration // as in a [Write]
	By       Audit
}
