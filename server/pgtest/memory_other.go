//go:build !linux

package pgtest

// memoryMount is a path at which this system does not have a file system in memory.
const memoryMount = "/dev/shm"

func memoryFolder() string { return "" }
