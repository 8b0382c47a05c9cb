package store

import (
	"context"
	"time"
)

// MaxLockWait is the longest total time that Claim, TakeOver and Quarantine of a [Store] wait for another transaction
// that holds the key. After it a caller gets in-progress.
const MaxLockWait = 500 * time.Millisecond

// MaxRetention is the longest time that a guard asks a [Store] to keep a record, to
// extend a lease or to look back: 200 years. Every Store takes lengths of time up to it.
const MaxRetention = 200 * 365 * 24 * time.Hour

// DefaultAuditRetention is how long a guard keeps a record by default.
const DefaultAuditRetention = 7 * 24 * time.Hour

// A Store keeps records. Its methods are atomic, and safe for concurrent use by many
// processes. Each method is one short transaction of its own, which is durable when the
// method returns nil, unless a [ClaimRequest] is Asynchronous. No method holds a lock or a connection between calls. The store's
// own clock decides every time, and lengths of time are taken up to [MaxRetention].
// servertest.TestStore is the conformance suite.
//
// A write whose ctx ends before its fate is known returns [ErrFateUnknown]. It is not cancelled while it is running:
// cancelling a COMMIT can make it visible without making it durable.
type Store interface {
	OperatorStore

	// Claim makes the request's token the owner, with fence 1, if the key is
	// absent (true). Otherwise it returns the present record (false). A claim
	// repeated with the same token while that token is still the owner of an
	// in-progress record returns true again. It returns [ErrExpired] instead of
	// inserting if FirstSent is older than Window. A duplicate writes nothing.
	Claim(ctx context.Context, req ClaimRequest) (Record, bool, error)

	// TakeOver makes the request's token the owner of a record that is still at fence from. The record must be
	// released, or in progress past its lease. In the second case its RecoveryAttempts grow by one, and MaybeRan is
	// set unless the dead run was Transactional. The new fence is from+1; CreatedAt, FirstSent and ExpiresAt stay.
	// A released record whose MaybeRan is false gets the request's Fingerprint; any other keeps its own. It returns [ErrExpired] if the record's own FirstSent is older than Window. If the record has
	// moved on, TakeOver returns the present record, and false; [ErrNotFound] if it is gone.
	TakeOver(ctx context.Context, req ClaimRequest, from int64) (Record, bool, error)

	// Quarantine moves a record that is still at fence req.From and in progress past its lease to req.To. Its
	// RecoveryAttempts grow by one, and MaybeRan is set as in TakeOver. If the record has moved on, Quarantine
	// returns the present record, and false; [ErrNotFound] if it is gone.
	Quarantine(ctx context.Context, req QuarantineRequest) (Record, bool, error)

	// Renew extends the leases of the owners that still own an in-progress
	// record, to now + lease; it never shortens a lease. An owner whose lease
	// has ended still owns the record until it is taken over.
	//
	// A failure with one record affects only its owner. Renew waits for no transaction that holds a record, or only
	// for a moment. The result holds for each owner that it names, also together with an error. Without an error it
	// names every owner.
	Renew(ctx context.Context, owners []Owner, lease time.Duration) (Renewal, error)

	// Settle ends the owner's run. It returns [ErrLeaseLost] if the owner does
	// not own an in-progress record. A completion that the same owner repeats
	// returns nil again. The owner of a record that became unknown since, and that nobody
	// resolved, can still complete or release it: it knows what happened.
	Settle(ctx context.Context, o Owner, s Settlement) error

	// Cancel makes the key a tombstone unless it is completed, already
	// cancelled, or in progress within its lease; then nothing changes. Undone
	// of the request says which completed keys become tombstones, too. An
	// absent key gets a new tombstone with fence 1. Any other key gets fence +
	// 1, and a dead owner counts as in TakeOver. Cancel returns the record as
	// it was before, and false if there was none. In a transaction
	// ([Tx.Cancel]) the record cannot change until the transaction ends.
	Cancel(ctx context.Context, req CancelRequest) (Record, bool, error)

	// Read returns the record, or [ErrNotFound].
	Read(ctx context.Context, id ID) (Record, error)

	// Sweep deletes at most limit records that are past ExpiresAt and not needed any more. Such a record is completed
	// past ReplayUntil, cancelled, released, or in progress past its lease and not Opaque. It returns how many it
	// deleted. Live, unknown and quarantined records stay, and so does a dead Opaque run. It also drops some envelopes
	// that are past AnswerUntil, and does not count them. Repeated calls drop all of them.
	Sweep(ctx context.Context, limit int) (int, error)

	// Stats counts the records by state and returns the age of the oldest
	// record in progress. It may be expensive.
	Stats(ctx context.Context) (Stats, error)

	// Reader returns a [Reader] of the store's records, for people who look. It sends nothing.
	Reader() Reader
}

// Stats is the result of [Store.Stats].
type Stats struct {
	ByState          map[State]int64
	OldestInProgress time.Duration // since CreatedAt; 0 if none is in progress
	Bytes            int64         // of the table with its indexes; 0 if the store cannot tell
	// AsyncStandbys is the number of standbys that can lack an acknowledged commit. A
	// failover to such a standby can lose answers and their effects. 0 if there is
	// none, or if the store cannot tell.
	AsyncStandbys int
}

// A WatchStore is a [Store] that can tell when a run in another process has ended. A guard over a WatchStore waits
// for the message instead of polling the store. The message decides nothing: the guard reads the record. A late or
// needless message costs only time.
type WatchStore interface {
	Store
	// Watch returns a channel that is closed when the record is no longer in progress at fence: settled, taken over,
	// quarantined, cancelled, resolved or gone. If the record is not in progress at fence at the call, the channel is
	// closed at once, or soon. The end of a lease closes no channel: it is not written to the store, and the caller
	// knows the time.
	//
	// A store that cannot tell any more, because it is closed or its server
	// does not answer, also closes the channel.
	//
	// Watch does not block. The caller calls stop, once or more often, when it
	// does not need the message any more, also after the channel was closed.
	Watch(id ID, fence int64) (ended <-chan struct{}, stop func())
}

// A PartitionStore is a [Store] that keeps answers in partitions by time. Some of
// them must exist before they are needed: a guard's RunSweeper calls it.
type PartitionStore interface {
	Store
	// MaintainPartitions makes the partitions for new answers that are kept for
	// keep, and drops partitions that are not needed any more. It does nothing
	// if answers are not partitioned. Work that would have to wait for other
	// transactions is left to the next call.
	MaintainPartitions(ctx context.Context, keep time.Duration) error
}
