package redistest

import "syscall"

// dieWithParent makes the kernel end the server when this process ends, whatever ends it. Ctrl-C reaches only us.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
