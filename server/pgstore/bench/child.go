package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A child is a process that this one started. It ends when this one does,
// whatever the reason.
type child struct {
	process *os.Process
	done    chan struct{}
	err     error // how it ended; read it after done
}

func launch(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread ends that started the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("bench: start %s: %w", cmd.Path, err)
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

// stop ends the process and waits for its end.
func (c *child) stop(sig os.Signal) error {
	if err := c.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.done
	return nil
}

// until asks again and again whether something has come to be, as long as the
// process runs and for at most a minute.
func until(ctx context.Context, c *child, what string, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		select {
		case <-c.done:
			return fmt.Errorf("bench: %s: the process ended: %w", what, c.err)
		case <-ctx.Done():
			return fmt.Errorf("bench: %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
