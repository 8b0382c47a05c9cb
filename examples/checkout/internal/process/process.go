// Package process runs a service in a process of its own, so that it can be
// killed. The parent side is [Start], the child's [Serve].
//
// The child gets its configuration on standard input and tells its address on
// standard output. It lives as long as its standard input is open: when the
// parent dies, by whatever means, the pipe breaks and the child stops.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// stopTimeout is how long a child that was told to stop may take.
const stopTimeout = 10 * time.Second

// A Command is a process to start.
type Command struct {
	Path   string
	Args   []string
	Config any      // given to the child as JSON; not in Args, which every user of the machine can read
	Stderr *os.File // nil: discarded
}

// A Process is a running child. Its methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	addr   string
	exited chan struct{} // closed when the child is over
}

// Start starts a child and waits until it tells its address, at most until
// ctx ends. ctx does not bound the child's life: end it with [Process.Stop] or
// [Process.Kill].
func Start(ctx context.Context, command Command) (*Process, error) {
	config, err := json.Marshal(command.Config)
	if err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	cmd := exec.Command(command.Path, command.Args...)
	if command.Stderr != nil {
		cmd.Stderr = command.Stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	p := &Process{cmd: cmd, stdin: stdin, exited: make(chan struct{})}
	if err := p.greet(ctx, stdin, stdout, config); err != nil {
		return nil, fmt.Errorf("process: the child did not start: %w", errors.Join(err, p.Kill()))
	}
	return p, nil
}

// greet tells the child its configuration and hears its address.
func (p *Process) greet(ctx context.Context, stdin io.Writer, stdout io.Reader, config []byte) error {
	heard := make(chan error, 1)
	go func() {
		defer close(p.exited)
		_, err := stdin.Write(append(config, '\n'))
		if err == nil {
			p.addr, err = bufio.NewReader(stdout).ReadString('\n')
			p.addr = strings.TrimSuffix(p.addr, "\n")
		}
		heard <- err
		_ = p.cmd.Wait() // its error is expected: it was told to end, or killed
	}()
	select {
	case err := <-heard:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Addr returns host:port.
func (p *Process) Addr() string { return p.addr }

// Kill ends the child with SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop asks the child to finish and waits until it is gone; it kills one that
// takes too long.
func (p *Process) Stop() error {
	err := p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		err = errors.Join(err, p.Kill())
	}
	if errors.Is(err, os.ErrClosed) { // killed before: the pipe went with it
		return nil
	}
	return err
}
