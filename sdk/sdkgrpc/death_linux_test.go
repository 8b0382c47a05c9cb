package sdkgrpc_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the child with a test binary that is killed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
