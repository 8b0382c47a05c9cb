package saga

import (
	"errors"
	"fmt"
)

// The sentinels of engines and runs.
var (
	// ErrConfig: [Open] refused a field of [Config], its journal or its client; the
	// text names it. Or there is no [Engine] to run a saga with.
	ErrConfig = errors.New("saga: bad config")
	// ErrPlanChanged: a [PlanChangedError].
	ErrPlanChanged = errors.New("saga: plan changed under the same version")
	// ErrInvalidKey: the saga's key is the zero Key, or its scope is too long or not
	// text.
	ErrInvalidKey = errors.New("saga: invalid key")
	// ErrEncode: the input cannot be encoded, or is longer than
	// [MaxInputBytes]. Nothing was stored.
	ErrEncode = errors.New("saga: input cannot be stored")
	// ErrKeyReused: the saga with that key was started with another input. A guarded
	// handler answers it with 422.
	ErrKeyReused = errors.New("saga: the key was used with another input")
	// ErrNoDefinition: the engine has no definition with the saga's name,
	// version and plan. A saga under way is parked until an engine has.
	ErrNoDefinition = errors.New("saga: no such definition")
	// ErrDetached: the wait for a saga ended and the saga did not: it is still
	// being driven. Run it again to attach to it.
	ErrDetached error = &againError{"saga: detached; the saga goes on"}
	// ErrNotStarted: this call has started nothing, since the journal does not
	// answer, or the engine has no lease or is closed. That does not say that there
	// is no saga with the key: an earlier call may have started it. Run it again
	// with the same key.
	ErrNotStarted error = &againError{"saga: not started by this call"}
	// ErrClosed: the engine is closed, or is being closed.
	ErrClosed = errors.New("saga: engine closed")
	// ErrNoResult: a call or a saga completed and what it returned is not
	// there: the callee no longer has it, it is too large, or it is not what
	// was declared.
	ErrNoResult = errors.New("saga: completed, but without its result")
	// ErrNothingToUndo is what the function of a [StepRef.UndoFunc] returns, wrapped
	// or not, that found no effect of its step, and made sure that none will follow:
	// the undo has succeeded, and its [Entry] says how.
	ErrNothingToUndo = errors.New("saga: nothing to undo")
	// ErrPanic: a function of the plan panicked.
	ErrPanic = errors.New("saga: panic")
)

// The sentinels of how a saga ended. An [*Error] matches one of them.
var (
	// ErrCompensated: the saga failed, and all it did is undone.
	ErrCompensated = errors.New("saga: compensated")
	// ErrStuck: the saga can go neither on nor back by itself.
	ErrStuck = errors.New("saga: stuck")
	// ErrAbandoned: somebody ended the saga where it stood.
	ErrAbandoned = errors.New("saga: abandoned")
	// ErrTimeout: the saga was compensated, or is stuck, because its time was up.
	ErrTimeout = errors.New("saga: out of time")
	// ErrCancelled: the saga was compensated because somebody cancelled it.
	ErrCancelled = errors.New("saga: cancelled")
)

// The sentinels of the operator's verbs.
var (
	// ErrConflict: the saga is in a state that the verb does not fit, or moved
	// on meanwhile. Look at it again.
	ErrConflict = errors.New("saga: conflict")
	// ErrReasonRequired: a verb without an actor or a reason, or with one that
	// is too long.
	ErrReasonRequired = errors.New("saga: actor and reason are required")
	// ErrNoStep: the saga's plan has no step of that name.
	ErrNoStep = errors.New("saga: no such step")
)

// An againError is a sentinel after which the saga is to be run again: sdk.Resumable
// reports true.
type againError struct{ text string }

func (e *againError) Error() string   { return e.text }
func (e *againError) Resumable() bool { return true }

// field returns an error of the configuration's field name.
func field(name string, err error) error { return fmt.Errorf("%w: %s: %w", ErrConfig, name, err) }
