package journal

import "time"

// SignalRetention is how long a journal keeps a signal at least whose saga is not there: it was sent before its saga
// starts, or to a saga that never does.
const SignalRetention = 90 * 24 * time.Hour

// A Signal is the value that a saga was sent under a name, or the end of its wait for one. A saga has at most one signal of
// a name. The first one stays.
type Signal struct {
	ID   ID // of the saga, which need not be there yet
	Name string
	// Value is JSON. Nil means that the saga's wait has ended without a value, and that the saga takes none any more.
	Value []byte
	// Corrupt is an [ErrCorrupt] if the value cannot be read, and nil if it can. [Journal].Send does not look at it.
	Corrupt error
}
