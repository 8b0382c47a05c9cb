//go:build unix

package pgtest

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

//go:embed reaper.sh
var reaperScript string

// A reaper is a shell process that lives a moment longer than our process. It
// stops Postgres and removes its folder after every end of our process: exit,
// panic or SIGKILL.
type reaper struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

func startReaper(dir string) (*reaper, error) {
	// The reaper has no output: a program that waits for the end of our output,
	// such as go test, must not wait for the reaper.
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "pgtest-reaper", dir) //nolint:noctx // it ends when the pipe breaks
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not end it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pgtest: start the reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: start the reaper: %w", err), pipe.Close())
	}
	return &reaper{cmd: cmd, pipe: pipe}, nil
}

// watch names the postmaster to stop; 0 means that none is running.
func (r *reaper) watch(pid int) error {
	line := "\n"
	if pid != 0 {
		line = fmt.Sprintf("%d\n", pid)
	}
	if _, err := io.WriteString(r.pipe, line); err != nil {
		return fmt.Errorf("pgtest: tell the reaper: %w", err)
	}
	return nil
}

// reap lets the reaper do its work now and waits for it.
func (r *reaper) reap() error {
	if err := r.pipe.Close(); err != nil {
		return fmt.Errorf("pgtest: tell the reaper: %w", err)
	}
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("pgtest: remove the cluster: %w", err)
	}
	return nil
}
