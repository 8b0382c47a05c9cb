//go:build !linux

package sdkgrpc_test

import "os/exec"

// dieWithParent can do nothing here.
func dieWithParent(*exec.Cmd) {}
