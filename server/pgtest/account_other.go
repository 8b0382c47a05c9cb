//go:build !unix

package pgtest

import "syscall"

// An account is the user that Postgres runs as. On this system it is always our own user: nil.
type account struct{ name string }

func serverAccount() (*account, error) { return nil, nil }

func (a *account) canReach(string) bool { return true }

func (a *account) chown(string) error { return nil }

func (a *account) sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
