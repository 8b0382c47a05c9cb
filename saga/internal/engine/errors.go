package engine

import (
	"errors"
)

// The errors that the engine returns. The front says what they mean.
var (
	ErrKeyReused            = errors.New("saga: the key was used with another input")
	ErrNoDefinition         = errors.New("saga: no such definition")
	ErrDetached       error = &againError{"saga: detached; the saga goes on"}
	ErrNotStarted     error = &againError{"saga: not started by this call"}
	ErrClosed               = errors.New("saga: engine closed")
	ErrNoResult             = errors.New("saga: completed, but without its result")
	ErrConflict             = errors.New("saga: conflict")
	ErrReasonRequired       = errors.New("saga: actor and reason are required")
	ErrNoStep               = errors.New("saga: no such step")
	ErrEncode               = errors.New("saga: input cannot be stored")
)

// An againError is a sentinel after which the saga is to be run again: sdk.Resumable
// reports true.
type againError struct{ text string }

func (a *againError) Error() string   { return a.text }
func (a *againError) Resumable() bool { return true }
