package blackboxtest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the service with a test binary that is killed. It is tied
// to the thread that starts the child; Go keeps threads unless a locked
// goroutine ends, which tests do not.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
