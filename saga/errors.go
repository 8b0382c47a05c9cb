package saga

import (
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/journal"
)

// The sentinels of engines and runs.
var (
	// ErrConfig: [Open] refused a field of [Config], its journal or its client; the text names
	// it. Or the [Engine] that should run a saga is missing.
	ErrConfig = errors.New("saga: bad config")
	// ErrInvalidKey: the saga's key is the zero Key, or its scope is too long or not
	// text.
	ErrInvalidKey = errors.New("saga: invalid key")
	// ErrEncode: the input cannot be encoded, or is longer than [journal.MaxInputBytes]. The saga
	// was not stored.
	ErrEncode = engine.ErrEncode
	// ErrKeyReused: the saga with that key was started with another input. A guarded
	// handler answers it with 422.
	ErrKeyReused = engine.ErrKeyReused
	// ErrNoDefinition: the engine does not have a definition with the saga's name, version and
	// plan. A saga that has begun waits until an engine has its definition. Or a record is of another
	// definition than the one that should read it.
	ErrNoDefinition = engine.ErrNoDefinition
	// ErrDetached: the wait for a saga ended before the saga did: it is still being executed. Run
	// it again to attach to it.
	ErrDetached = engine.ErrDetached
	// ErrNotStarted: this call has not started a saga, since the journal does not answer, or the
	// engine has no lease or is closed. A saga with the key may exist even so, because an earlier
	// call may have started it. Run it again with the same key.
	ErrNotStarted = engine.ErrNotStarted
	// ErrClosed: the engine is closed, or is being closed.
	ErrClosed = engine.ErrClosed
	// ErrNoResult: a call or a saga completed, but its result is missing. The callee no longer
	// has the result, it is too large, or it is not of the declared type.
	ErrNoResult = engine.ErrNoResult
	// ErrNothingToUndo is an answer of the function of a [StepRef.UndoFunc], wrapped or not. It
	// means that the function found no effect of its step, and made sure that none will follow.
	// The undo has succeeded, and its [journal.Entry] has Nothing set.
	ErrNothingToUndo = errors.New("saga: nothing to undo")
)

// The sentinels of signals.
var (
	// ErrSignal: the signal cannot be sent or awaited. It was not made by [NewSignal], its name or its type cannot
	// be, or the saga does not await it, or awaits another type.
	ErrSignal = engine.ErrSignal
	// ErrSignalReused: the saga was sent another value under the signal's name. That one stays. A guarded handler answers it with 422.
	ErrSignalReused = journal.ErrSignalReused
	// ErrTooLate: the saga takes no value of the signal any more. Its wait has ended without one, or it goes back or is over.
	ErrTooLate = journal.ErrTooLate
)

// The sentinels of how a saga ended. An [*Error] matches one of them.
var (
	// ErrCompensated: the saga failed, and all its effects are undone.
	ErrCompensated = errors.New("saga: compensated")
	// ErrStuck: the saga can go neither on nor back by itself.
	ErrStuck = errors.New("saga: stuck")
	// ErrAbandoned: a person ended the saga in its present state.
	ErrAbandoned = errors.New("saga: abandoned")
	// ErrTimeout: the saga was compensated, or is stuck, because its time was up.
	ErrTimeout = errors.New("saga: out of time")
	// ErrCancelled: the saga was compensated because a person cancelled it.
	ErrCancelled = errors.New("saga: cancelled")
)

// The sentinels of the operator's verbs.
var (
	// ErrConflict: the verb does not fit the saga's state, or the saga changed meanwhile. Read
	// the saga again.
	ErrConflict = engine.ErrConflict
	// ErrReasonRequired: the verb lacks an actor or a reason, or one of these is too long.
	ErrReasonRequired = engine.ErrReasonRequired
	// ErrNoStep: no step of the saga's plan has that name.
	ErrNoStep = engine.ErrNoStep
)

// The errors of journals that users of sagas meet. They are those of package journal.
var (
	// ErrNotFound: the journal does not have the saga.
	ErrNotFound = journal.ErrNotFound
	// ErrFateUnknown: a write was sent, and it is not known whether it is durable.
	// Run the saga again with the same key.
	ErrFateUnknown = journal.ErrFateUnknown
	// ErrRefused: the journal refuses the request, and would refuse it again.
	ErrRefused = journal.ErrRefused
	// ErrCorrupt: the stored data cannot be read.
	ErrCorrupt = journal.ErrCorrupt
	// ErrNewer: the stored data has a part that this build does not know. It matches ErrCorrupt
	// too.
	ErrNewer = journal.ErrNewer
)

// field returns an error of the configuration's field name.
func field(name string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrConfig, name, errtext.Inner(err))
}
