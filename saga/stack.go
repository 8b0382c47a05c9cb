package saga

import "runtime"

// growStack gives a goroutine that has just begun the stack that a call will need:
// 16 KB, as the hash of a key, far down in package sdk, takes more than is left of
// 8. Left to itself the stack doubles when it is full, twice or more, and each time
// all frames that are on it are copied and corrected; BenchmarkRun spent a fifth of
// its processor time on that.
//
//go:noinline
func growStack() {
	var frame [12 << 10]byte
	runtime.KeepAlive(&frame)
}
