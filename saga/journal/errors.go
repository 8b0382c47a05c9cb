package journal

import "errors"

// The errors that journals return, wrapped where a fact is added. Any other
// error means that the journal could not be reached or did not do what was
// asked: the call has changed nothing.
var (
	// ErrNotFound: the journal does not have the saga.
	ErrNotFound = errors.New("saga: not found")
	// ErrLeaseLost: the engine is no longer the saga's owner, or its lease is
	// over; nothing changed.
	ErrLeaseLost = errors.New("saga: lease lost")
	// ErrFateUnknown: a write was sent, and whether it is durable is not known.
	// It may also become durable later.
	ErrFateUnknown error = fateUnknownError{}
	// ErrRefused: the journal refuses the request, and would refuse it again: an
	// argument is bad, its tables are missing, or its role lacks a right. Nothing changed.
	ErrRefused = errors.New("saga: refused by the journal")
	// ErrSignalReused: the saga was sent another value under the signal's name. That one stays.
	ErrSignalReused = errors.New("saga: the signal was sent with another value")
	// ErrTooLate: the saga takes no value of the signal any more. Its wait has ended without one, or the saga goes back or is
	// over. The value was not stored.
	ErrTooLate = errors.New("saga: too late for the signal")
	// ErrCorrupt: what is stored cannot be read. Methods that return records
	// say it of the one that it is true of; see [Record].Corrupt.
	ErrCorrupt = errors.New("saga: corrupt record")
	// ErrNewer: what is stored has a part that this build does not know, as a
	// field of a newer build. An engine defers such a saga: it leaves it to builds
	// that know the part. A sealed saga whose key the process lacks is deferred in the
	// same way. To this build the record is corrupt, so that ErrNewer
	// matches [ErrCorrupt] too.
	ErrNewer error = newerError{}
)

type fateUnknownError struct{}

func (fateUnknownError) Error() string { return "saga: fate of the write unknown" }

// Resumable reports, as sdk.Resumable asks, that the saga is to be run again.
func (fateUnknownError) Resumable() bool { return true }

type newerError struct{}

func (newerError) Error() string { return "saga: stored by a newer build" }

func (newerError) Is(target error) bool { return target == ErrCorrupt }
