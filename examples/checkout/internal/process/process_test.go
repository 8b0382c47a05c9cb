package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/checkout/internal/process"
)

// The test binary is child, and parent of a child, as well.
const (
	childArg  = "child"
	parentArg = "parent"
)

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case childArg:
		if err := process.Serve(os.Stdin, os.Stdout, startEcho); err != nil {
			os.Exit(1)
		}
	case parentArg:
		parent()
	default:
		os.Exit(m.Run())
	}
}

type config struct{ Mode string }

// echo is a server that only listens.
type echo struct{ net.Listener }

func (e echo) Addr() string               { return e.Listener.Addr().String() }
func (e echo) Stop(context.Context) error { return e.Close() }

func startEcho(ctx context.Context, cfg config) (process.Server, error) {
	switch cfg.Mode {
	case "fails":
		return nil, errors.New("no")
	case "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	return echo{listener}, err
}

// parent starts a child, tells its address, and waits to be killed.
func parent() {
	p, err := start(context.Background(), "")
	if err != nil {
		os.Exit(1)
	}
	_, _ = io.WriteString(os.Stdout, p.Addr()+"\n")
	select {}
}

func start(ctx context.Context, mode string) (*process.Process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return process.Start(ctx, process.Command{Path: path, Args: []string{childArg}, Config: config{mode}})
}

func listening(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func TestProcess(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(*process.Process) error
	}{
		{"stop", (*process.Process).Stop},
		{"kill", (*process.Process).Kill},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := start(t.Context(), "")
			require.NoError(t, err)
			require.True(t, listening(p.Addr()), "child listens on %s", p.Addr())
			require.NoError(t, tt.end(p))
			require.False(t, listening(p.Addr()), "child is gone")
			require.NoError(t, p.Kill(), "the dead cannot be killed")
			require.NoError(t, p.Stop(), "or stopped")
		})
	}
}

func TestStart_childFails(t *testing.T) {
	t.Parallel()
	if p, err := start(t.Context(), "fails"); err == nil {
		t.Errorf("Start = %v, want an error", p.Addr())
	}
}

func TestStart_isBounded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := start(ctx, "hangs")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestStart_noSuchProgram(t *testing.T) {
	t.Parallel()
	_, err := process.Start(t.Context(), process.Command{Path: t.TempDir() + "/none"})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = process.Start(t.Context(), process.Command{Path: "x", Config: func() {}})
	require.Error(t, err, "a configuration that is no JSON")
}

// A parent that is killed can do nothing any more. Its child must go anyway.
func TestProcess_parentKilled(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path, parentArg)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, 64)
	n, err := stdout.Read(line)
	require.NoError(t, err)
	addr := strings.TrimSpace(string(line[:n]))
	require.True(t, listening(addr))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return !listening(addr) }, 10*time.Second, 10*time.Millisecond)
}

func TestServe_badInput(t *testing.T) {
	t.Parallel()
	for _, stdin := range []string{"", "{", "[]"} {
		err := process.Serve(strings.NewReader(stdin), io.Discard, startEcho)
		require.Error(t, err, "stdin %q", stdin)
	}
	var stdout bytes.Buffer
	require.NoError(t, process.Serve(strings.NewReader("{}"), &stdout, startEcho))
	require.Contains(t, stdout.String(), "127.0.0.1:")
}
