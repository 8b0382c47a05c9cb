package server

import (
	"context"
	"errors"
	"time"
)

// The errors that stores return, wrapped where a fact is added. Any other
// error means that the store could not be reached or did not do what was
// asked: nothing is known to have changed.
var (
	// ErrNotFound: there is no record.
	ErrNotFound = errors.New("server: no such key")
	// ErrLeaseLost: the owner is no longer the key's owner; nothing changed.
	// It is also the cause that a run's ctx is cancelled with.
	ErrLeaseLost = errors.New("server: lease lost")
	// ErrExpired: the key would have been claimed, but it was first sent
	// before the retention window; nothing changed.
	ErrExpired = errors.New("server: first sent before the retention window")
	// ErrInProgress: another transaction is deciding about the key at this moment,
	// as the transaction of an undo does. Nothing changed. A later request
	// learns the decision. Claim, TakeOver and Bury return it instead of
	// waiting longer than [MaxLockWait]. It never stands for a record that is final.
	ErrInProgress = errors.New("server: another transaction is deciding about the key")
	// ErrFateUnknown: a write was sent, and whether it is durable is not
	// known. It may also become durable later.
	ErrFateUnknown = errors.New("server: fate of the write unknown")
	// ErrRecordUnreadable: the store has a record of the key and cannot make
	// sense of it. No retry can help: the answer is record-unreadable.
	ErrRecordUnreadable = errors.New("server: record unreadable")
)

// MaxLockWait is how long Claim, TakeOver and Bury of a [Store] wait at most, in all, for
// the end of another transaction that holds the key. A caller gets in-progress then.
const MaxLockWait = 500 * time.Millisecond

// An Owner is one run's hold on a key. Every write of a run names both its
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
	// Window is how old a first-sent time may be for the key to run: FirstSent,
	// and in a take-over that of the record.
	Window time.Duration
	// Route and Memo become the record's if it is Opaque.
	Route string
	Memo  []byte
	// Repeat says that the key has probably been claimed before: a store may then
	// look for a record before it claims. It is a guess, and decides nothing: wrong
	// either way, it costs a look.
	Repeat bool
}

// A BuryRequest takes a dead run's key out of use.
type BuryRequest struct {
	ID   ID
	From int64 // the dead owner's fence
	To   State // StateUnknown or StatePoisoned
	// Route is the record's from now on, so that whoever lists the key sees what
	// it was for. Empty leaves what there is.
	Route string
}

// A CancelRequest asks that a key never run (again).
type CancelRequest struct {
	ID    ID
	Token Token         // random: a cancel repeated after a lost answer knows itself
	Keep  time.Duration // the tombstone's ExpiresAt is now + Keep, or what it was if that is later
}

// A Settlement ends a run.
type Settlement struct {
	// State is StateCompleted, StateReleased, StateUnknown or StateInProgress. An
	// unknown record's LeaseUntil is now: [OperatorStore].Defer may move it on.
	//
	// StateInProgress means that the run counts as dead. The record stays as it is,
	// and its LeaseUntil is now: the next TakeOver, Bury or Cancel counts the death.
	State State
	// Answer is the outcome of a completed run.
	Answer Answer
	// ReplayFor: ReplayUntil = now + ReplayFor; for a completed run.
	ReplayFor time.Duration
	// KeepAnswer: AnswerUntil = now + KeepAnswer; for a completed run. 0 keeps
	// the answer as long as the record.
	KeepAnswer time.Duration
	// MaybeRan is or-ed into the record's.
	MaybeRan bool
}

// A Renewal is what [Store].Renew found out. An owner that neither list names is
// undecided: its lease may have been extended or not. It may ask again.
type Renewal struct {
	Renewed []Owner // their leases were extended
	Lost    []Owner // they own no in-progress record any more, and never will again
}

// A Store keeps records. Its methods are atomic and safe for concurrent use by
// many processes; each is one short transaction of its own that is durable
// when the method returns nil, and none holds anything between calls. The
// store's own clock decides every time, and lengths of time are taken up to
// [MaxRetention]. servertest.TestStore is the law in full.
//
// A write whose ctx ends before its fate is known returns [ErrFateUnknown] and
// is not cancelled under way: cancelling a COMMIT can make it visible without
// making it durable.
type Store interface {
	OperatorStore

	// Claim makes the request's token the owner, with fence 1, if the key is
	// absent (true), or returns the record as it stands (false). A claim
	// repeated with the same token while that token is still the owner of an
	// in-progress record returns true again. It returns [ErrExpired] instead
	// of inserting if FirstSent is older than Window. A duplicate writes
	// nothing.
	Claim(ctx context.Context, req ClaimRequest) (Record, bool, error)

	// TakeOver makes the request's token the owner of a record that is still
	// at fence from and is released, or in progress past its lease (then its
	// Deaths grow by one, and MaybeRan is set unless the dead run was
	// Transactional). The new fence is from+1; CreatedAt, FirstSent,
	// Fingerprint and ExpiresAt stay. It returns [ErrExpired] if the record's
	// own FirstSent is older than Window. If the record has moved on it
	// returns it as it stands, and false; [ErrNotFound] if it is gone.
	TakeOver(ctx context.Context, req ClaimRequest, from int64) (Record, bool, error)

	// Bury moves a record that is still at fence req.From and in progress past
	// its lease to req.To; its Deaths grow by one and MaybeRan is set as in
	// TakeOver. If the record has moved on it returns it as it stands, and
	// false; [ErrNotFound] if it is gone.
	Bury(ctx context.Context, req BuryRequest) (Record, bool, error)

	// Renew extends the leases of the owners that still own an in-progress
	// record, to now + lease; it never shortens a lease. An owner whose lease ran
	// out, but whom no one took over, still owns it.
	//
	// Trouble with one record concerns its owner alone. Renew waits for no
	// transaction that holds a record, or only for a moment. What it returns
	// holds for each owner that it names, also together with an error. Without an
	// error it names every owner.
	Renew(ctx context.Context, owners []Owner, lease time.Duration) (Renewal, error)

	// Settle ends the owner's run. It returns [ErrLeaseLost] if the owner does
	// not own an in-progress record; a completion that is repeated by the
	// same owner returns nil again.
	Settle(ctx context.Context, o Owner, s Settlement) error

	// Cancel makes the key a tombstone unless it is completed, already
	// cancelled, or in progress within its lease; then nothing changes. An
	// absent key gets a new tombstone with fence 1; any other gets fence + 1,
	// and a dead owner counts as in TakeOver. It returns the record as it
	// was before, and false if there was none. Under it the record cannot
	// change until the transaction ends ([Tx.Cancel]).
	Cancel(ctx context.Context, req CancelRequest) (Record, bool, error)

	// Read returns the record, or [ErrNotFound].
	Read(ctx context.Context, id ID) (Record, error)

	// Sweep deletes at most limit records that are past ExpiresAt and that
	// nobody can need: completed past ReplayUntil, cancelled, released, or in
	// progress past its lease and not Opaque. It returns how many it deleted.
	// Live, unknown and poisoned records stay, and so does a dead opaque run.
	// It also drops some envelopes that are past AnswerUntil, and says nothing
	// of them: all of them in the end, if it is called again and again.
	Sweep(ctx context.Context, limit int) (int, error)

	// Stats counts the records by state and tells the age of the oldest that
	// is in progress. It may be expensive.
	Stats(ctx context.Context) (Stats, error)
}

// Stats is what [Store.Stats] returns.
type Stats struct {
	ByState          map[State]int64
	OldestInProgress time.Duration // since CreatedAt; 0 if none is in progress
	Bytes            int64         // of the table with its indexes; 0 if the store cannot tell
	// AsyncStandbys is the number of standbys that can lack an acknowledged commit. A
	// failover to such a standby can lose answers and their effects. 0 if there is
	// none, or if the store cannot tell.
	AsyncStandbys int
}

// A WatchStore is a [Store] that can tell when a run in another process has
// ended. A guard over one waits to be told, where it would ask the store again
// and again. What it is told decides nothing: it reads the record. So to be told
// late, or for nothing, costs time and no more.
type WatchStore interface {
	Store
	// Watch returns a channel that is closed when the record is no longer in
	// progress at fence: settled, taken over, buried, cancelled, resolved or gone.
	// If it was not so to begin with the channel is closed at once, or soon. A
	// lease that ends is no news: nobody writes it down, and the caller knows when
	// it does.
	//
	// A store that cannot tell any more, for it is closed or its server does not
	// answer, closes the channel as well.
	//
	// Watch does not block. The caller calls stop, once or more often, when it does
	// not want to know any more, also after the channel was closed.
	Watch(id ID, fence int64) (ended <-chan struct{}, stop func())
}

// A TxStore is a [Store] that can settle a run inside the transaction which
// holds the run's effects: what [Transactional] routes and completion hooks
// need.
type TxStore interface {
	Store
	// Begin opens a transaction. It holds at most one connection until it ends;
	// a store may take that, and report that there is none, with the first
	// statement.
	Begin(ctx context.Context) (Tx, error)
}

// A Tx is a transaction of a [TxStore]. It belongs to one run and is not safe
// for concurrent use.
type Tx interface {
	// NewContext returns ctx carrying the transaction for the store's own
	// accessor, as pgstore.Tx.
	NewContext(ctx context.Context) context.Context
	// Cancel is [Store.Cancel] as part of this transaction.
	Cancel(ctx context.Context, req CancelRequest) (Record, bool, error)
	// Settle settles the run as the transaction's last statement, and commits.
	// Each error means that the transaction was rolled back, with one exception:
	//   - [ErrLeaseLost]: the owner does not own the key any more.
	//   - [ErrConflict], [ErrTxLost], a [*TxError]: as Err says. A COMMIT that the
	//     store refused is a TxError with Commit set.
	//   - [ErrFateUnknown]: the COMMIT was sent, and its answer was lost.
	Settle(ctx context.Context, o Owner, s Settlement) error
	// Rollback ends the transaction without effect. After the end it does
	// nothing.
	Rollback(ctx context.Context) error
	// Err returns nil while the transaction can be committed, as far as the store
	// knows. Otherwise it returns the first failure that prevents the commit,
	// whether or not the handler looked at it. A failure inside a savepoint that
	// was rolled back prevents nothing. The errors are:
	//   - [ErrConflict]: a serialization failure or a deadlock, also in a
	//     savepoint. Running the transaction again may succeed.
	//   - [ErrTxLost]: the transaction is lost, and no COMMIT was sent.
	//   - a [*TxError]: the store refused a statement because of the statement.
	//   - any other error: the store could not do its part. It lacks a resource,
	//     or an operator or a timeout stopped the statement.
	//
	// After the end Err returns what it returned before it.
	Err() error
}

// ErrConflict means that the transaction was rolled back by a serialization
// failure or a deadlock, and can be run again.
var ErrConflict = errors.New("server: transaction conflict")
