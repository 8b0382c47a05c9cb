package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// These are the errors that stores return, wrapped if a fact is added. Any
// other error means that the store could not be reached or did not do its task:
// nothing changed, and a guard says in its answer that the key was not claimed. Only a [BusyError]
// also says so to the caller's program, by the code not-claimed.
var (
	// ErrNotFound: the store does not contain a record of the key.
	ErrNotFound = errors.New("server: no such key")
	// ErrLeaseLost: the owner is no longer the key's owner; nothing changed.
	// It is also the cause that a run's ctx is cancelled with.
	ErrLeaseLost = errors.New("server: lease lost")
	// ErrExpired: the key would have been claimed, but it was first sent
	// before the retention window; nothing changed.
	ErrExpired = errors.New("server: first sent before the retention window")
	// ErrInProgress: another transaction, such as that of an undo, is deciding about the key at this moment. Nothing
	// changed. A later request learns the decision. Claim, TakeOver and Quarantine return it instead of waiting
	// longer than [MaxLockWait], and never for a final record. Cancel returns it after the lock timeout of the store.
	ErrInProgress = errors.New("server: another transaction is deciding about the key")
	// ErrFateUnknown: a write was sent, and it is not known whether it is
	// durable. It may also become durable later.
	ErrFateUnknown = errors.New("server: fate of the write unknown")
	// ErrRecordUnreadable: the store contains a record of the key and cannot
	// read it. No retry can help: the answer is record-unreadable.
	ErrRecordUnreadable = errors.New("server: record unreadable")
	// ErrConflict means that the transaction was rolled back by a serialization
	// failure or a deadlock, and can be run again.
	ErrConflict = errors.New("server: transaction conflict")
	// ErrTxLost means that the store lost the transaction before COMMIT was sent,
	// for example with its connection. No row is committed. The guard runs the handler
	// once more, in a new transaction.
	ErrTxLost = errors.New("server: transaction lost")
	// ErrTxAbandoned means that a transaction cannot be committed because the ctx of one of its statements ended before
	// the answer came: the time of the handler was over, or the handler gave the statement up. No row is committed. The
	// store itself works, as far as it is known.
	ErrTxAbandoned = errors.New("server: transaction abandoned")
	// ErrArgument: the argument is invalid; nothing changed.
	ErrArgument = errors.New("server: bad argument")
)

// A BusyError means that a store had no connection for a call: none was free in time, the database refused a new one or
// does not write, or too many calls wait already. Nothing was sent, or nothing of it was done. The usual reason is that handlers hold all connections in their transactions, where
// they wait for the same row. A guard refuses the call with not-claimed, and its caller knows that the attempt had no
// effect. A store must not return a BusyError for a call of which it has sent a part, unless it has undone that part.
type BusyError struct {
	Pool string // the name of the pool, as callers may see it: a database's. Err says more
	Size int    // its connections, which were all in use; 0 if they are not the reason
	Err  error
}

// Error implements error.
func (e *BusyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *BusyError) Unwrap() error { return e.Err }

// A RefusedError says that a call did not run and has no answer; Code says why. It
// matches another RefusedError with the same Code, and unwraps to Err.
type RefusedError struct {
	Code       wire.Code
	RetryAfter time.Duration // if a retry can help
	// Again means that a retry can help, also if the code says otherwise.
	Again bool
	Err   error // the cause; may be nil
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("server: refused: %s: %s", e.Code, strings.TrimPrefix(e.Err.Error(), "server: "))
	}
	return "server: refused: " + string(e.Code)
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Is reports whether target is a RefusedError with the same Code.
func (e *RefusedError) Is(target error) bool {
	other, ok := target.(*RefusedError)
	return ok && other.Code == e.Code
}

// Retryable reports whether the same call with the same key can succeed later.
func (e *RefusedError) Retryable() bool {
	s, ok := e.Code.Situation()
	return ok && s.Retryable || e.Again
}
