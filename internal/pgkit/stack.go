package pgkit

import "runtime"

// growStack gives the goroutine of a write, which has just begun, the stack that pgx
// will need. Left to itself the stack doubles when it is full, twice or more, and
// each time all frames that are on it are copied and corrected.
//
//go:noinline
func growStack() {
	var frame [6 << 10]byte
	runtime.KeepAlive(&frame)
}
