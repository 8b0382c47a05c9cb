//go:build !linux

package pgtest

// memoryMount is where there is nothing to find.
const memoryMount = "/dev/shm"

func memoryFolder() string { return "" }
