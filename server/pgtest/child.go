package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// A child is a running process. done is closed when it has ended.
type child struct {
	process *os.Process
	done    chan struct{}
	err     error // how it ended; read it after done
}

// launch starts cmd and waits for its end in a goroutine of its own.
func launch(cmd *exec.Cmd) (*child, error) {
	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent-death signal depends on the thread, not on the process: if
		// the Go runtime ended this thread, Postgres would end too.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("pgtest: start %s: %w", cmd.Path, err)
			return
		}
		c.process = cmd.Process
		started <- nil
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// hasEnded reports whether the process has ended.
func (c *child) hasEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// signal sends sig and waits for the end of the process. A process that has
// already ended does not cause an error.
func (c *child) signal(sig os.Signal) error {
	if c.hasEnded() {
		return nil
	}
	// ErrProcessDone: the process ended between the two lines, and done will soon be closed.
	if err := c.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pgtest: signal Postgres: %w", err)
	}
	<-c.done
	return nil
}
