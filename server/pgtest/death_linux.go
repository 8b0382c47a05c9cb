package pgtest

import "syscall"

// dieWithParent makes the kernel send SIGQUIT (Postgres: stop at once) when the thread that
// started the process ends. It is the second line after the reaper, for
// when somebody kills both of us. The thread must outlive the process: see [launch].
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
