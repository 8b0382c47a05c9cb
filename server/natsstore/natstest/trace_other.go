//go:build !linux

package natstest

// letTrace does nothing: only Linux has strace.
func letTrace() {}
