// Package blackboxtest starts the example services as processes of their own, for
// tests that kill them.
package blackboxtest

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ChildVariable tells a test binary that it was started as a service. Its
// TestMain calls the service's main then.
const ChildVariable = "FANONCE_EXAMPLE_CHILD"

// readyTimeout is far beyond what a start takes on a busy machine.
const readyTimeout = time.Minute

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("blackboxtest: %v", err)
	}
}

// A Process is a service that runs as a process of its own. It is killed when
// its test ends.
type Process struct {
	tb  testing.TB
	bin string
	env []string
	cmd *exec.Cmd

	// URL is where it listens; the same after a restart.
	URL string
}

// Start runs this test binary as a service with the environment env
// (NAME=value) and a LISTEN address of its own, without waiting until it is
// ready.
func Start(tb testing.TB, env ...string) *Process {
	tb.Helper()
	bin, err := os.Executable()
	must(tb, err)
	return start(tb, bin, append(env, ChildVariable+"=1"))
}

// StartBinary is Start for another program.
func StartBinary(tb testing.TB, bin string, env ...string) *Process {
	tb.Helper()
	return start(tb, bin, env)
}

func start(tb testing.TB, bin string, env []string) *Process {
	tb.Helper()
	address := FreeAddress(tb)
	p := &Process{tb: tb, bin: bin, env: append(env, "LISTEN="+address), URL: "http://" + address}
	p.Restart()
	tb.Cleanup(p.Kill)
	return p
}

// FreeAddress returns an address at which no process listens. Kernels do not give its port to
// outgoing connections, so it stays free until the process starts, and while the process is
// dead.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	const lowest, highest, tries = 20000, 32000, 20
	var err error
	for range tries {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(highest-lowest)))
		var listener net.Listener
		if listener, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", address); err == nil {
			must(tb, listener.Close())
			return address
		}
	}
	must(tb, err)
	return ""
}

// Restart starts the process again after its end.
func (p *Process) Restart() {
	p.tb.Helper()
	p.cmd = exec.Command(p.bin)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
	dieWithParent(p.cmd)
	must(p.tb, p.cmd.Start())
}

// Kill ends the process by SIGKILL, if it runs.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) { must(p.tb, p.cmd.Process.Signal(s)) }

// Getenv returns a variable of the environment that the process was started with.
func (p *Process) Getenv(name string) string {
	for _, variable := range p.env {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// Wait waits until the process has ended, and returns how: nil is exit status 0.
func (p *Process) Wait() error { return p.cmd.Wait() }

// Running reports whether the process still runs. It does not reap it.
func (p *Process) Running() bool { return p.cmd.Process.Signal(syscall.Signal(0)) == nil }

// AwaitReady waits until the process says that it is ready.
func (p *Process) AwaitReady() *Process {
	p.tb.Helper()
	for deadline := time.Now().Add(readyTimeout); Status(p.tb.Context(), p.URL+"/healthz") != http.StatusOK; {
		if time.Now().After(deadline) {
			p.tb.Fatalf("blackboxtest: %s is not ready after %v", p.URL, readyTimeout)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return p
}

// Status returns the status of a GET, or 0 if there was no answer.
func Status(ctx context.Context, url string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// Build compiles the program in the package folder and returns the binary.
func Build(tb testing.TB, folder string) string {
	tb.Helper()
	bin := tb.TempDir() + "/program"
	out, err := exec.CommandContext(tb.Context(), "go", "build", "-o", bin, folder).CombinedOutput()
	if err != nil {
		tb.Fatalf("blackboxtest: build %s: %v\n%s", folder, err, out)
	}
	return bin
}
