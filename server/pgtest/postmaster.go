package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout bounds a start whose ctx has no deadline.
	startTimeout = 60 * time.Second
	// poll is the time between two looks at the pid file.
	poll = 5 * time.Millisecond
	// restartPause is the time between attempts to start on a data folder that the processes of a killed server still
	// use.
	restartPause = 100 * time.Millisecond
	portTries    = 10
)

// errPortTaken: another process took the port between our choice and Postgres's bind.
var errPortTaken = errors.New("pgtest: port taken")

// errStillInUse: processes of a killed server still hold the data folder.
var errStillInUse = errors.New("pgtest: data folder still in use")

// A postmaster is a private cluster: its files, and its server process if that is running.
type postmaster struct {
	bin      string
	acct     *account
	folder   *folder
	durable  bool
	options  []string
	password string
	port     int
	server   *child // nil before the first start
}

// newPostmaster makes a cluster and starts it. After an error no file or process is left.
func newPostmaster(ctx context.Context, cfg Config) (*postmaster, error) {
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	bin, err := findBinaries(cfg, acct)
	if err != nil {
		return nil, err
	}
	dir, err := newFolder(acct, cfg.Durable)
	if err != nil {
		return nil, err
	}
	p := &postmaster{bin: bin, acct: acct, folder: dir, durable: cfg.Durable, options: cfg.options(), password: rand.Text()}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.initdb(ctx); err != nil {
		return nil, errors.Join(err, p.destroy())
	}
	if err := p.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(err, p.destroy())
	}
	return p, nil
}

// command returns a command of Postgres that runs in p's folder as p's user.
func (p *postmaster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...) //nolint:noctx // ends by signal, see child
	cmd.Dir = p.folder.path
	cmd.Env = serverEnv()
	cmd.SysProcAttr = p.acct.sysProcAttr()
	return cmd
}

func (p *postmaster) initdb(ctx context.Context) error {
	// The server has a password although its port is only on the loopback: its
	// superuser may run programs, and the machine may have other users.
	secret, err := scramSecret(p.password)
	if err != nil {
		return err
	}
	file := filepath.Join(p.folder.path, "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		return fmt.Errorf("pgtest: initdb: %w", err)
	}
	if err := p.acct.chown(file); err != nil {
		return fmt.Errorf("pgtest: initdb: %w", err)
	}
	return p.run(ctx, "initdb", "--pgdata", p.folder.data(), "--username", "postgres", "--pwfile", file, "--auth", "scram-sha-256",
		"--no-sync", "--no-instructions", "--locale", "C", "--encoding", "UTF8")
}

// run runs a program of Postgres until it ends, or until ctx ends it.
func (p *postmaster) run(ctx context.Context, program string, args ...string) error {
	var output strings.Builder
	cmd := p.command(program, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	run, err := launch(cmd)
	if err != nil {
		return err
	}
	select {
	case <-run.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("pgtest: %s: %w", program, context.Cause(ctx)), run.signal(syscall.SIGKILL))
	}
	if run.err != nil {
		return fmt.Errorf("pgtest: %s: %w: %s", program, run.err, strings.TrimSpace(output.String()))
	}
	return nil
}

// startOnFreePort starts the server on a free port.
func (p *postmaster) startOnFreePort(ctx context.Context) error {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		p.port = port
		err = p.start(ctx)
		if !errors.Is(err, errPortTaken) || try == portTries {
			return err
		}
	}
}

// The port is outside the range that kernels use for outgoing connections. Any
// connection could take a port of that range between our choice and the
// server's bind, or between the server's death and its restart.
const lowestPort, highestPort = 20000, 32000

func freePort() (int, error) {
	var err error
	for range portTries {
		port := lowestPort + mathrand.IntN(highestPort-lowestPort)
		var listener net.Listener
		listener, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // does not block
		if err == nil {
			if err = listener.Close(); err == nil {
				return port, nil
			}
		}
	}
	return 0, fmt.Errorf("pgtest: find a free port: %w", err)
}

// start starts the server on p.port and waits until it takes connections.
func (p *postmaster) start(ctx context.Context) error {
	log, err := os.OpenFile(p.folder.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("pgtest: start Postgres: %w", err)
	}
	defer log.Close() //nolint:errcheck // the server has its own descriptor
	before, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("pgtest: start Postgres: %w", err)
	}
	args := append([]string{"-D", p.folder.data(), "-p", strconv.Itoa(p.port), "-k", p.folder.path}, p.options...)
	cmd := p.command("postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if p.server, err = launch(cmd); err != nil {
		return err
	}
	if err := p.folder.reaper.watch(p.server.process.Pid); err != nil {
		return errors.Join(err, p.stop(syscall.SIGQUIT))
	}
	return p.awaitReady(ctx, before)
}

// awaitReady blocks until the server takes connections. It returns an error if
// the server or ctx ends first, and the server has ended then.
func (p *postmaster) awaitReady(ctx context.Context, logStart int64) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-p.server.done:
			return errors.Join(p.whyEnded(logStart), p.folder.reaper.watch(0))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("pgtest: start Postgres: %w", context.Cause(ctx)), p.stop(syscall.SIGQUIT))
		case <-ticker.C:
			// The pid distinguishes our server's file from that of a killed server.
			if pid, ready := readPIDFile(p.folder.data()); ready && pid == p.server.process.Pid {
				return nil
			}
		}
	}
}

// whyEnded makes an error from the server's log since offset.
func (p *postmaster) whyEnded(offset int64) error {
	text, err := os.ReadFile(p.folder.logFile())
	if err != nil {
		return fmt.Errorf("pgtest: Postgres ended at once: %w", err)
	}
	said := strings.TrimSpace(string(text[min(offset, int64(len(text))):]))
	cause := errors.New("pgtest: Postgres ended at once")
	switch {
	case strings.Contains(said, "could not bind"):
		cause = errPortTaken
	case strings.Contains(said, "is still in use"), strings.Contains(said, "lock file \"postmaster.pid\" already exists"):
		cause = errStillInUse
	}
	return fmt.Errorf("%w: %s", cause, said)
}

// stop ends the server with sig, if it is running, and waits for its end.
func (p *postmaster) stop(sig syscall.Signal) error {
	if p.server == nil {
		return nil
	}
	if err := p.server.signal(sig); err != nil {
		return err
	}
	return p.folder.reaper.watch(0)
}

// restart starts an ended server again, on the same port and data. After a kill the old server's processes and their
// locks stay for a while, so restart tries until ctx ends.
func (p *postmaster) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := p.start(ctx)
		if !errors.Is(err, errStillInUse) && !errors.Is(err, errPortTaken) {
			return err
		}
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("pgtest: restart Postgres: %w", context.Cause(ctx)), err)
		}
	}
}

// destroy stops the server and removes the cluster's files.
func (p *postmaster) destroy() error {
	return errors.Join(p.stop(syscall.SIGQUIT), p.folder.remove())
}
