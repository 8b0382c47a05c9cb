package store

import "time"

// An Owner is one run's ownership of a key. Every write of a run names both its
// token and its fence.
type Owner struct {
	ID    ID
	Token Token
	Fence int64
}

// A ClaimRequest asks to become the owner of a key.
type ClaimRequest struct {
	ID          ID
	Token       Token
	Fingerprint Fingerprint
	Effect      Effect
	Lease       time.Duration // from now, by the store's clock
	Keep        time.Duration // ExpiresAt = now + Keep
	FirstSent   time.Time     // zero: none
	// Window is how old a first-sent time may be for the key to run. It applies
	// to FirstSent, and in a take-over to the record's FirstSent.
	Window time.Duration
	// Parent becomes the record's by the first claim. A take-over does not change it.
	Parent ID
	// Route and Memo become the record's if it is Opaque. A store may be configured to keep the
	// Route of every claim.
	Route string
	Memo  []byte
	// Asynchronous lets Claim return before the claim is durable. A crash or a failover of the store may
	// then forget the claim. A store does so only if it forgets with it every write that it took after
	// the claim. A later write for the record that is durable, as a renewal or a settlement is, makes
	// the claim durable. TakeOver ignores it. False asks for a durable claim.
	Asynchronous bool
}

// A QuarantineRequest takes a dead run's key out of use.
type QuarantineRequest struct {
	ID   ID
	From int64 // the dead owner's fence
	To   State // StateUnknown or StateQuarantined
	// Route becomes the record's Route, so that a person who lists the key sees
	// its purpose. Empty does not change the record's Route.
	Route string
}

// A CancelRequest asks that a key never run (again).
type CancelRequest struct {
	ID    ID
	Token Token         // random: a cancel repeated after a lost answer finds its own tombstone
	Keep  time.Duration // the tombstone's ExpiresAt is now + Keep, or the record's if that is later
	// Undone says that the effects of the key have been undone. Then a record that is completed with a status below
	// 400 becomes a tombstone, too. It keeps its answer's status, from which a further undo learns that the call ran.
	Undone bool
}

// A Settlement ends a run.
type Settlement struct {
	// State is StateCompleted, StateReleased, StateUnknown or StateInProgress. An
	// unknown record's LeaseUntil is now: [OperatorStore].Defer may move it on.
	//
	// StateInProgress means that the run counts as dead. The record stays as it is,
	// and its LeaseUntil is now: the next TakeOver, Quarantine or Cancel counts the death.
	State State
	// Answer is the outcome of a completed run.
	Answer Answer
	// ReplayFor: ReplayUntil = now + ReplayFor; for a completed run.
	ReplayFor time.Duration
	// KeepAnswer: AnswerUntil = now + KeepAnswer; for a completed run. 0 keeps
	// the answer as long as the record.
	KeepAnswer time.Duration
	// MaybeRan is or-ed into the record's MaybeRan.
	MaybeRan bool
	// FailedAttempts is the record's new FailedAttempts, unless the run is completed. 0 to [MaxFailedAttempts].
	FailedAttempts int
	// DeadLetter says that the run gave the work up, and completed only the report of that: a
	// dead letter. People find the key by [ListRequest].DeadLetters. For a completed run.
	DeadLetter bool
}

// EndsUnknown reports whether s also settles a record that became unknown, if its owner asks: it says what happened.
func (s Settlement) EndsUnknown() bool { return s.State == StateCompleted || s.State == StateReleased }

// A Renewal is the result of [Store].Renew. An owner in neither list is
// undecided: its lease may have been extended or not. It may ask again.
type Renewal struct {
	Renewed []Owner // their leases were extended
	Lost    []Owner // they no longer own an in-progress record, and never will again
}
