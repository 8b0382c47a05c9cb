package saga

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// The limits of what a journal keeps of a saga.
const (
	MaxInputBytes  = 256 << 10
	MaxResultBytes = 256 << 10 // of a step and of the saga
	MaxDetailBytes = 4 << 10
)

// A Status is where a saga stands.
type Status uint8

const (
	// Running means that it goes forward.
	Running Status = iota + 1
	// Compensating means that it failed, and undoes what it did. There is no
	// way back to Running.
	Compensating
	// Completed means that all steps did, and is final.
	Completed
	// Compensated means that everything is undone, and is final.
	Compensated
	// Stuck means that it waits for a person.
	Stuck
	// Abandoned means that a person ended it where it stood, and is final.
	Abandoned
)

var statusNames = map[Status]string{
	Running: "running", Compensating: "compensating", Completed: "completed",
	Compensated: "compensated", Stuck: "stuck", Abandoned: "abandoned",
}

// String returns the status's name in lower case, as in logs.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return "none"
}

// Final reports whether a saga stays in that status for good.
func (s Status) Final() bool { return s == Completed || s == Compensated || s == Abandoned }

// Driven reports whether an engine has work to do in that status.
func (s Status) Driven() bool { return s == Running || s == Compensating }

// A Record is what a journal knows of one saga. All times are by the journal's
// clock.
type Record struct {
	ID    ID
	Scope string
	Key   childkey.Key // as it was given; see [Scope] for the keys of its calls

	Name      string
	Version   int
	Plan      PlanHash
	InputHash [32]byte // SHA-256 of the input as it was first given
	Input     []byte

	Status Status
	Engine EngineID // that drives it, or did last; zero: none
	// Fence grows with each engine that takes the saga over, and with each verb;
	// but not from 0, which says that no engine had the saga yet. Every write
	// names it.
	Fence int64
	// Revision grows by one with every write.
	Revision int64
	// Deaths counts the engines that died under the saga since it last got
	// anywhere, as its last owner found it: see [Journal].Claim.
	Deaths int
	// Clean says that nobody drives the saga, and that Entries say all that was done
	// of it. Its next owner trusts them. It is false where an owner may have begun
	// calls that are not in Entries.
	Clean bool

	Entries []Entry // at most one per step and direction
	// Turned is when Running became Compensating; zero: never.
	Turned time.Time
	// Cancel says that somebody wants it compensated: its next owner turns it,
	// unless it is past its pivot.
	Cancel  bool
	Cause   *Failure // why it was turned; nil: it was not
	StuckOn *Failure // why it is stuck; nil: it is not
	Result  []byte   // of a completed saga; nil: none was kept
	// Parked says why the last build that took the saga left it to others: it
	// met a part that it does not know. nil: the saga is not parked.
	Parked *Failure

	// WakeAt is when a saga without an engine may be claimed; zero: it has an engine,
	// or is over or stuck. A saga sleeps until then.
	WakeAt time.Time
	// DeadlineAt is when what must succeed is stuck, or a Running saga turns. Zero means
	// that none is stored yet: the definition's Timeout, if it has one, counts from
	// FirstClaimedAt.
	DeadlineAt time.Time

	Now       time.Time // the journal's clock as it read this record
	CreatedAt time.Time // when the saga was stored
	// FirstClaimedAt is when the first engine got the saga, before any call was sent.
	// Zero means that no engine had it yet. It does not change any more.
	FirstClaimedAt time.Time
	ResumedAt      time.Time // when a verb last set it going; zero: never
	FinishedAt     time.Time // when its status became final or Stuck; zero: not yet
	ExpiresAt      time.Time // a final saga is swept after it; zero: it is not final

	// Corrupt is what of the saga cannot be read, and an [ErrCorrupt]; nil:
	// nothing. Its other fields are those that can be read. Status is 0 where the
	// journal has none that there is. Its entries are not all there, its Status may
	// not be true, and nothing is sent for it:
	// whoever owns it makes it stuck, or parks it if it is an [ErrNewer].
	Corrupt error
}

// An Entry is what is known of one call of a saga: a step's, or its undo's.
type Entry struct {
	Step string // its name in the plan
	Undo bool
	// Outcome is final, unless the entry is Pending.
	Outcome retry.Outcome
	// Pending says that the call is to be tried (again): not before RetryAt.
	Pending bool
	Tries   int // that ended
	RetryAt time.Time
	// At is when the entry was written, or the call ended.
	At     time.Time
	Result []byte // of a completed call of a step; nil: none was kept
	// Forced names who said so, if it was a person and not the callee.
	Forced string
	// Nothing says of an undo that completed that there was nothing to undo: its
	// function returned [ErrNothingToUndo], or the callee answered so
	// (Idempotent-Forward: never-ran, as a guarded one does that asks server.Barrier).
	Nothing bool
	// Status, Code and Detail say what was seen, for people; never a key or a
	// body. Status and Code are those of the last answer: Code is that of a
	// [retry.Error].
	Status int
	Code   wire.Code
	Detail string
	// Problem is what the callee's last problem said in its detail member; "": nothing.
	Problem string
}

// A Reason is the kind of a [Failure].
type Reason string

// The reasons.
const (
	ReasonStep     Reason = "step"     // a step failed, or its undo did
	ReasonTimeout  Reason = "timeout"  // the saga's time was up
	ReasonCancel   Reason = "cancel"   // somebody cancelled it
	ReasonPoisoned Reason = "poisoned" // too many engines died under it
	ReasonCorrupt  Reason = "corrupt"  // its record cannot be read
	ReasonPanic    Reason = "panic"    // the engine failed on it
	ReasonNewer    Reason = "newer"    // it has a part that the build does not know
)

// A Failure says why a saga was turned, or is stuck.
type Failure struct {
	Reason  Reason
	Step    string // that failed; "" where it was none
	Undo    bool   // it was the undo that failed
	Outcome retry.Outcome
	Status  int
	Code    wire.Code
	Detail  string // as in an [Entry]
	Problem string // as in an [Entry]
}

// parentKey returns the parent key of the saga's calls: the hop key of its key. The
// error is for a record that no engine of this version has stored.
func (r *Record) parentKey() (childkey.Key, error) {
	parent, err := childkey.Hop(r.Scope, "saga/"+r.Name, r.Key)
	if err != nil {
		return childkey.Key{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return parent, nil
}
