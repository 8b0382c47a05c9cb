package journal

import (
	"cmp"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// The limits of the stored parts of a saga.
const (
	MaxInputBytes  = 256 << 10
	MaxResultBytes = 256 << 10 // of a step and of the saga
	MaxDetailBytes = 4 << 10
	MaxTraceBytes  = 255
	// MaxBodyBytes is the length of the longest body of a refusal that is kept. A longer body is
	// left out as a whole: a part of it could not be decoded.
	MaxBodyBytes = 8 << 10
)

// A Status is the state of a saga.
type Status uint8

const (
	// Running means that the saga goes forward.
	Running Status = iota + 1
	// Compensating means that the saga failed, and undoes its effects. It never becomes Running
	// again.
	Compensating
	// Completed means that all steps completed, and is final.
	Completed
	// Compensated means that everything is undone, and is final.
	Compensated
	// Stuck means that the saga waits for a person.
	Stuck
	// Abandoned means that a person ended the saga in its present state, and is final.
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

// Active reports whether an engine has work to do in that status.
func (s Status) Active() bool { return s == Running || s == Compensating }

// A Record is what a journal knows of one saga.
type Record struct {
	ID    ID
	Scope string
	Key   childkey.Key // as it was given; see saga.Scope for the keys of its calls

	Name      string
	Version   int
	Plan      PlanHash
	InputHash [32]byte // SHA-256 of the input as it was first given
	Input     []byte
	// Trace is that of the [StartRequest]. A list has it no more than the Input.
	Trace string

	Status Status
	Engine EngineID // that executes the saga, or did last; zero: none
	// Fence grows with each engine that takes the saga over, and with each verb. A verb leaves 0,
	// which says that no engine had the saga yet. Every write names the fence.
	Fence int64
	// Revision grows by one with every change: the writes of owners, claims and verbs.
	Revision int64
	// Wakes is how many of the revisions are wakes ([Change].Wake) since the last claim or other
	// verb. The owner need not know them: its next write is at Revision - Wakes + 1.
	Wakes int64
	// RecoveryAttempts counts the engines that died under the saga since its last progress, as its last
	// owner found it: see [Journal].Claim.
	RecoveryAttempts int
	// Clean says that no engine executes the saga, and that Entries are complete. Its next owner
	// trusts them. Clean is false if an owner may have begun calls that are not in Entries.
	Clean bool

	Times

	Entries []Entry // at most one per step and direction
	// Cancel says that a person wants the saga compensated. Its next owner compensates it, unless the
	// saga is past its pivot.
	Cancel  bool
	Cause   *Failure // why the saga failed; nil: it did not
	StuckOn *Failure // why the saga is stuck; nil: not stuck
	Result  []byte   // of a completed saga; nil: not stored
	// Deferred says why the last build that took the saga left it to other builds: the saga has a
	// part unknown to that build. nil: the saga is not deferred.
	Deferred *Failure

	// Corrupt is an [ErrCorrupt] that names the parts that cannot be read. nil means that all
	// parts can be read. If it is not nil, the other fields are the readable ones, and Status is
	// 0 if the stored one is unknown. Entries are incomplete, and Status may be wrong. So no call
	// is sent for the saga. Its owner makes it stuck, or defers it if Corrupt is an [ErrNewer].
	Corrupt error
}

// Times are the times of a saga, by the journal's clock.
type Times struct {
	Now       time.Time // when the journal read the record
	CreatedAt time.Time // when the saga was stored
	// FirstClaimedAt is when the first engine got the saga, before any call was sent.
	// Zero means that no engine had it yet. It does not change any more.
	FirstClaimedAt time.Time
	FailedAt       time.Time // when Running became Compensating; zero: never
	ResumedAt      time.Time // when a verb last resumed the saga; zero: never
	FinishedAt     time.Time // when its status became final or Stuck; zero: not yet
	ExpiresAt      time.Time // a final saga is swept after it; zero: not final

	// WakeAt is when a saga without an engine may be claimed. A saga sleeps until then. Zero
	// means that the saga has an engine, or is over or stuck.
	WakeAt time.Time
	// DeadlineAt is when a Running saga fails. A saga that must succeed, or goes back, gets stuck
	// then. Zero means that none is stored yet: the definition's Timeout, if it has one, counts
	// from FirstClaimedAt.
	DeadlineAt time.Time
}

// An Entry is the record of one call of a saga: the call of a step, or of its undo.
type Entry struct {
	Step string // its name in the plan
	Undo bool
	// Outcome is final, unless the entry is Pending.
	Outcome retry.Outcome
	// Pending says that the call is to be tried (again): not before RetryAt.
	Pending  bool
	Attempts int // that ended
	RetryAt  time.Time
	// FirstSent is the First-Sent of the first attempt that may have been sent. Later ones send the same,
	// also after a Retry. Zero means that none is known, or that the call completed.
	FirstSent time.Time
	// At is when the entry was written, or the call ended.
	At     time.Time
	Result []byte // of a completed call of a step; nil: not stored
	// Forced is the actor, if a person and not the callee stated the outcome.
	Forced string
	// Nothing says that a completed undo found nothing to undo. Its function returned
	// saga.ErrNothingToUndo, or the callee answered so (Idempotent-Forward: never-ran). A guarded
	// callee that asks server.Barrier answers so.
	Nothing bool
	// Skipped says that the saga goes on without the step. It had no effect: its condition did not hold, the output of
	// another skipped step was needed, or it is optional and was refused.
	Skipped bool
	// Status and Code are those of the last answer that refused the call: Code is that of a
	// [retry.Error]. Detail describes the failure, for people. No key is in them.
	Status int
	Code   wire.Code
	Detail string
	// Problem is that answer's text for people: the Detail of a [retry.Error]; "": none.
	Problem string
	// Body is the body of that answer, of at most [MaxBodyBytes]. It is nil without a body, or
	// with BodyTooLong.
	Body []byte
	// BodyTooLong says that the answer had a longer body. No part of it is kept.
	BodyTooLong bool
}

// IsAsleep reports whether the entry is that of a step which makes no call, and ends at RetryAt: a saga.Sleep that has
// begun. A call that waits has had an attempt.
func (e *Entry) IsAsleep() bool {
	return e.Pending && e.Outcome == retry.NotSent && e.Attempts == 0 && !e.RetryAt.IsZero()
}

// A Reason is the kind of a [Failure].
type Reason string

// The reasons.
const (
	ReasonStep             Reason = "step"              // a step or its undo failed
	ReasonTimeout          Reason = "timeout"           // the saga's time was up
	ReasonCancel           Reason = "cancel"            // a person cancelled the saga
	ReasonRecoveryAttempts Reason = "recovery_attempts" // too many engines died under the saga
	ReasonCorrupt          Reason = "corrupt"           // the record cannot be read
	ReasonPanic            Reason = "panic"             // the engine failed on it
	ReasonNewer            Reason = "newer"             // the saga has a part that the build does not know
)

// A Failure says why a saga failed, or is stuck.
type Failure struct {
	Reason  Reason
	Step    string // that failed; "": no step failed
	Undo    bool   // the undo failed, and not the call
	Outcome retry.Outcome
	// The rest is as in an [Entry].

	Status      int
	Code        wire.Code
	Detail      string
	Problem     string
	Body        []byte
	BodyTooLong bool
}

// String returns the failure for people: the step and its outcome, or the reason, and what the answer says.
func (f Failure) String() string {
	text := string(f.Reason)
	if f.Step != "" {
		text = f.Step + " " + f.Outcome.String()
		if f.Undo {
			text = "undo of " + text
		}
	}
	if said := cmp.Or(string(f.Code), f.Problem, f.Detail); said != "" {
		text += ": " + said
	}
	return text
}
