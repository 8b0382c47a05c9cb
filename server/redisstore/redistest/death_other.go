//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing: other systems have no signal at the parent's death.
func dieWithParent() *syscall.SysProcAttr { return nil }
