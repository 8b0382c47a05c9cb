package journal

import "time"

// The limits of an [Audit].
const (
	MaxActorBytes  = 128
	MaxReasonBytes = 1024
)

// A Verb is what was done to a saga in somebody's name.
type Verb string

// The verbs.
const (
	VerbRetry         Verb = "retry"
	VerbRetryNow      Verb = "retry-now"
	VerbForceOK       Verb = "force-ok"
	VerbForceRejected Verb = "force-rejected"
	VerbForceUndone   Verb = "force-undone"
	VerbCancel        Verb = "cancel"
	VerbAbandon       Verb = "abandon"
	VerbSignal        Verb = "signal" // Step is the signal's name
	VerbMigrate       Verb = "migrate"
)

// An Audit says in whose name something is done, and why.
type Audit struct {
	Verb   Verb   // the methods of saga.Operator and saga.Engine set it
	Step   string // of a verb about a step; of VerbMigrate the versions, as in "1 to 2"
	Actor  string // 1 to [MaxActorBytes] bytes
	Reason string // 1 to [MaxReasonBytes] bytes

	// Revision is [Record].Revision as the actor saw it: if the saga moved since,
	// the verb does nothing and returns saga.ErrConflict. It grows with every write, so
	// that of a saga that is executed is soon out of date. Zero takes the saga as it
	// stands when the verb comes. It is not in the audit log.
	Revision int64
}

// An AuditEntry is one line of the audit log.
type AuditEntry struct {
	// Number grows from entry to entry. 0: the journal does not tell.
	Number int64
	At     time.Time // the journal's clock
	ID     ID
	Audit

	From, To Status
	Fence    int64 // after the change

	// Corrupt is what of the line cannot be read, and an [ErrCorrupt]; nil: nothing.
	Corrupt error
}
