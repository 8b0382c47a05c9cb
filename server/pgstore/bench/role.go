package main

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
	"syscall"
)

// roleVariable is set in processes that this program starts of itself; its value is
// which of the roles they play.
const roleVariable = "FANONCE_BENCH_ROLE"

// calleeRole is the role of a service that is not guarded.
const calleeRole = "callee"

// play runs a process from start to end if it has a role, of which there is one. It reads its orders from in as JSON. In
// one line it says what the other process must know, and waits for the end of in.
func play(ctx context.Context, in io.Reader, out io.Writer) error {
	if name := os.Getenv(roleVariable); name != calleeRole {
		return fmt.Errorf("bench: %s: there is no role %q", roleVariable, name)
	}
	reader := bufio.NewReader(in)
	orders, err := reader.ReadBytes('\n')
	if err != nil {
		return err
	}
	return playCallee(ctx, orders, reader, out)
}

// An actor is a process of ours that plays a role.
type actor struct {
	child *child
	in    io.WriteCloser
	out   *bufio.Reader
	pipe  io.Closer       // of out
	said  strings.Builder // on standard error
	ready string          // its first line
}

// hire starts a process of this program in a role, and returns when it is ready.
func hire(name string, orders any) (*actor, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &actor{}
	cmd := exec.Command(program) //nolint:noctx // it ends when its input does
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.Stderr = &a.said
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), ours.Close())
	}
	cmd.Stdin, cmd.Stdout = in, out
	a.in, a.out, a.pipe = ours, bufio.NewReader(theirs), theirs
	a.child, err = launch(cmd)
	err = errors.Join(err, in.Close(), out.Close())
	if err != nil {
		return nil, errors.Join(err, ours.Close(), theirs.Close())
	}
	if err = json.NewEncoder(a.in).Encode(orders); err == nil {
		a.ready, err = a.out.ReadString('\n')
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: a %s is not ready: %w", name, err), a.dismiss())
	}
	a.ready = strings.TrimSpace(a.ready)
	return a, nil
}

// dismiss ends the process, and returns what went wrong in it.
func (a *actor) dismiss() error {
	err := errors.Join(a.in.Close(), a.child.stop(syscall.SIGTERM), a.pipe.Close())
	if a.said.Len() > 0 {
		err = errors.Join(err, errors.New(strings.TrimSpace(a.said.String())))
	}
	return err
}
