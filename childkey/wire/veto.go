package wire

import "errors"

// ErrVetoed means that a callee said that no retry can help
// ([HeaderShouldRetry]: false). The caller's errors wrap it, and the callee whose
// handler returns such an error says the same to its own caller: so it travels up
// to whoever would retry.
var ErrVetoed = errors.New("no retry can help")
