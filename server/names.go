package server

import "github.com/fanonce/fanonce/server/store"

// The names of package store that handlers and their callers use.
type (
	// Fate is what [Barrier] tells an undo about the forward call: [Ran], [NeverRan] or [MaybeRan].
	Fate = store.Fate
	// State is the state of a key, from [StateInProgress] to [StateCancelled].
	State = store.State
	// RefusedError is returned by [Guard.Do] for a call that did not run
	// and has no answer.
	RefusedError = store.RefusedError
)

// Effect says where a route's effects go. It decides what follows when a run fails or its process dies. Every
// route declares one, without a default. The result of a run decides what is stored:
//
//	                                   Transactional            Keyed                   Opaque
//	status below 400                   commit rows and answer   store it, with hooks    store it
//	4xx, or any status with Final      roll back, store it      store it, no hooks      store it
//	  with KeepRows                    commit rows and answer   store it, with hooks    -
//	401 403 407 408 421 423 425 429    roll back, release       release                 release
//	5xx, panic, Goexit, unfit answer   roll back, release       release, may have run   unknown
//	Release                            roll back, release       release, may have run   release, may have run
//	a statement was refused:
//	  refusal that is stored           roll back, store it      as the handler answers  as the handler answers
//	  below 400, or KeepRows           transaction-failed       as the handler answers  as the handler answers
//	the COMMIT was refused             transaction-failed       transaction-failed      -
//	the ctx of a statement ended       roll back, release       as the handler answers  as the handler answers
//	the transaction was lost           run once more            complete once more      -
//
// Every further call with the key gets the stored answer. A released key runs with the next call. An undo of a
// released key, or of a stored status of 400 or above, is told [NeverRan]. If some run of the key may have had
// effects it is told [MaybeRan]. An unknown key is outcome-unknown to every further call until [Guard.Resolve]
// or Reconcile of the [Route] decides. Final, Release and KeepRows are the options of [Settle]. For
// handlers that means:
//
//   - A refusal, which is a stored answer of 400 or above, has no effect in the store: a Transactional
//     handler's rows are rolled back, and a Keyed handler's hooks do not run. [KeepRows] is the exception.
//   - A Keyed or Opaque handler answers with a 4xx only where nothing that it did or
//     called took effect, or when it has undone that: the caller takes a 4xx for proof
//     that there is no effect, and so does an undo.
//   - 401, 403, 407, 408, 421, 423, 425 and 429 release the key of an Opaque handler
//     too, and the next call runs it again. A handler that had its effect must not
//     answer with one of them: with another status, or Final, nothing runs again, and
//     only a status below 400 says that the effect is there.
//
// The last five rows are about the transaction of the run, and that of completion hooks:
//
//   - A statement is refused because of what it says, such as a violated constraint: see
//     [store.TxError]. It does not matter whether the handler looked at the error. A savepoint
//     that was rolled back ends the matter. transaction-failed is 500, no retry can help,
//     and the key is released. The log says at level Error what to correct.
//   - If a constraint refuses the COMMIT, OnCommitError of the [Route] can make an
//     answer of it, which is stored.
//   - A statement that a completion hook sent, or its COMMIT, is refused: the answer is
//     transaction-failed too, and the released key counts as one that may have run. After
//     a hook's own error a retry can help, and the answer says so.
//   - The ctx of a statement ends before the statement's answer: the HandlerTimeout is over, or the handler gave
//     the statement up. The caller gets the handler's 5xx. In place of a stored answer it gets transaction-failed,
//     and a retry can help, as the answer says.
//   - A transaction that is lost, mostly with its connection, runs once more at once. A
//     second loss is 503 store-unavailable, whatever the handler answered, and counts as
//     a death of the run. Trouble of the database, such as a full disk or a statement
//     timeout, is 503 at once, and the key is released.
//
// After a panic or [runtime.Goexit] the key is settled as after a 5xx, and the panic
// goes on: nothing is recovered.
type Effect = store.Effect

// The classes of an [Effect].
const (
	// Transactional means that every effect is in the store's own database, in
	// the transaction that the handler gets.
	Transactional = store.Transactional
	// Keyed means that effects outside the store's database go through calls
	// with child keys, which the next hops deduplicate.
	Keyed = store.Keyed
	// Opaque means any other effect: after a failure its outcome is unknown.
	Opaque = store.Opaque
)

// The states of a key.
const (
	StateInProgress  = store.StateInProgress  // an owner holds the key until its lease ends
	StateCompleted   = store.StateCompleted   // the outcome is recorded and final
	StateReleased    = store.StateReleased    // the next call runs
	StateUnknown     = store.StateUnknown     // the outcome of an Opaque run is unknown
	StateQuarantined = store.StateQuarantined // too many owners died; the key is quarantined
	StateCancelled   = store.StateCancelled   // the key will never run (again)
)

// The fates of a forward call.
const (
	Ran      = store.Ran      // it completed; undo it
	NeverRan = store.NeverRan // it had no effect and never will have one
	MaybeRan = store.MaybeRan // some run of it may have had effects; undo what can be found
)

// The errors that a guard, its handlers and its callers see.
var (
	// ErrArgument: an argument is wrong; nothing changed.
	ErrArgument = store.ErrArgument
	// ErrNotFound: the store does not contain the record.
	ErrNotFound = store.ErrNotFound
	// ErrLeaseLost is the cause that a run's ctx is cancelled with once the run is no
	// longer the key's owner.
	ErrLeaseLost = store.ErrLeaseLost
	// ErrNoRun: ctx is not the ctx of a run, or the run is over.
	ErrNoRun = store.ErrNoRun
	// ErrWrongEffect: the route's effect class does not allow the call or option.
	ErrWrongEffect = store.ErrWrongEffect
)
