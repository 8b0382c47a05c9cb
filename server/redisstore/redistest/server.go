package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout bounds how long a server may take until it answers.
const startTimeout = 20 * time.Second

// ErrNoServer means that redis-server is not on PATH.
var ErrNoServer = errors.New("redistest: no redis-server: install Redis (apt-get install redis-server), or set REDISTEST_SERVER")

// A Server is a redis-server of ours, on a port of 127.0.0.1. Its methods are safe for concurrent use.
type Server struct {
	dir  string
	port int
	args []string

	mu      sync.Mutex
	process *os.Process
	done    chan struct{} // closed when the process has ended
	output  *bytes.Buffer
}

// Start starts a server that writes every change to disk before it answers (appendfsync always). options are
// further ones of redis-server, such as "--appendfsync", "everysec". It fails tb if that does not work. When tb ends,
// so does the server, and its folder is deleted.
func Start(tb testing.TB, options ...string) *Server {
	tb.Helper()
	s, err := New(options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// New is Start for programs outside of tests. The caller calls Stop.
func New(options ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{dir: dir, args: append([]string{"--appendonly", "yes", "--appendfsync", "always", "--save", ""}, options...)}
	for range 5 { // another process may take the port in between
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Restart(); err == nil {
			return s, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

// freePort returns a port that is free, and so is the one for the bus of a cluster, which is 10000 higher.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + rand.IntN(15000)
		if isFree(port) && isFree(port+10000) {
			return port, nil
		}
	}
	return 0, errors.New("redistest: no free port")
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}

// Addr returns host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Client returns a client of the server, which the caller closes.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, Protocol: 2})
}

func executable() (string, error) {
	if file := os.Getenv("REDISTEST_SERVER"); file != "" {
		return file, nil
	}
	file, err := exec.LookPath("redis-server")
	if err != nil {
		return "", ErrNoServer
	}
	return file, nil
}

// Restart starts the server again, on its port and with its files, and waits until it answers. The server must have
// ended.
func (s *Server) Restart() error {
	file, err := executable()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output = new(bytes.Buffer)
	cmd := exec.Command(file, append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--daemonize", "no",
		"--repl-diskless-sync-delay", "0", "--dbfilename", "dump.rdb",
	}, s.args...)...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = s.output, s.output
	cmd.SysProcAttr = dieWithParent()
	if err := s.launch(cmd); err != nil {
		return fmt.Errorf("redistest: start %s: %w", filepath.Base(file), err)
	}
	if err := s.await(); err != nil {
		_ = s.signal(syscall.SIGKILL)
		return err
	}
	return nil
}

// launch starts cmd in a goroutine of its own: the signal at the parent's death depends on the thread.
func (s *Server) launch(cmd *exec.Cmd) error {
	started := make(chan error)
	s.done = make(chan struct{})
	go func(done chan struct{}) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(done)
	}(s.done)
	if err := <-started; err != nil {
		return err
	}
	s.process = cmd.Process
	return nil
}

// await waits until the server answers, or has ended.
func (s *Server) await() error {
	client := s.Client()
	defer client.Close()
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-s.done:
			return fmt.Errorf("redistest: redis-server ended:\n%s", s.output)
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := client.Ping(ctx).Err()
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("redistest: redis-server on %s does not answer", s.Addr())
}

// Kill ends the server with SIGKILL, as a crash does, and waits for its end. The kernel keeps what the server has
// written to files.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal(syscall.SIGKILL)
}

// Suspend stops the process without ending it; Resume lets it go on.
func (s *Server) Suspend() error { return s.process.Signal(syscall.SIGSTOP) }

// Resume lets a suspended server go on.
func (s *Server) Resume() error { return s.process.Signal(syscall.SIGCONT) }

// signal sends sig until the process has ended: Redis refuses SIGTERM while it writes its first append-only file.
func (s *Server) signal(sig os.Signal) error {
	if s.process == nil {
		return nil
	}
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		if err := s.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("redistest: %w", err)
		}
		select {
		case <-s.done:
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
	_ = s.process.Kill()
	<-s.done
	return fmt.Errorf("redistest: redis-server did not end after %v", sig)
}

// Stop ends the server with SIGTERM, waits for its end, and deletes its folder. It also ends a server that is suspended,
// and can be called more than once.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = s.process.Signal(syscall.SIGCONT) // the signal below waits until the process runs
	}
	err := s.signal(syscall.SIGTERM)
	return errors.Join(err, os.RemoveAll(s.dir))
}
