package pgtest

import "syscall"

// dieWithParent makes the kernel send SIGQUIT (Postgres: stop at once) when the thread that started the process ends.
// It is the second protection after the reaper, for the case that both we and the reaper are killed. The thread must
// live longer than the process: see [launch].
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
