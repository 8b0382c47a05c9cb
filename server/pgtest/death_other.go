//go:build unix && !linux

package pgtest

import "syscall"

// dieWithParent does nothing: only Linux signals the death of a parent. The
// reaper stops Postgres.
func dieWithParent(*syscall.SysProcAttr) {}
