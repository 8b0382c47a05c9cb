package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// EnvPgBouncer names the environment variable with the file of PgBouncer, where it
// is not on PATH.
const EnvPgBouncer = "PGTEST_PGBOUNCER"

// ErrNoPooler: there is no PgBouncer on this machine.
var ErrNoPooler = errors.New("pgtest: no PgBouncer to be had: install it (pgbouncer on PATH), or name its file in " + EnvPgBouncer)

// A Pooler is a PgBouncer in transaction mode in front of a server: each
// transaction of a client may be on another of its connections, and nothing of a
// session is left from one to the next. [StartPooler] makes one. Its methods are
// safe for concurrent use.
type Pooler struct {
	mu      sync.Mutex
	server  *child
	folder  *folder
	port    int
	stopped bool
}

// StartPooler starts a PgBouncer for all databases of the server that url names,
// with that url's user, and returns when it takes connections. connections is how
// many it opens to each database. It leaves no more behind than a [Cluster] does.
// The error matches [ErrNoPooler] if there is no PgBouncer on this machine.
func StartPooler(ctx context.Context, url string, connections int) (*Pooler, error) {
	target, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	bin, err := findPooler()
	if err != nil {
		return nil, err
	}
	dir, err := newFolder(acct, false)
	if err != nil {
		return nil, err
	}
	p := &Pooler{folder: dir}
	if err := p.start(ctx, bin, acct, target, connections); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// findPooler returns the file of PgBouncer. Debian puts it where no user's PATH
// leads.
func findPooler() (string, error) {
	if file := os.Getenv(EnvPgBouncer); file != "" {
		if _, err := exec.LookPath(file); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoPooler, err)
		}
		return file, nil
	}
	for _, file := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if found, err := exec.LookPath(file); err == nil {
			return found, nil
		}
	}
	return "", ErrNoPooler
}

func (p *Pooler) start(ctx context.Context, bin string, acct *account, target *pgconn.Config, connections int) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	p.port = port
	file := filepath.Join(p.folder.path, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(p.ini(target, connections)), 0o600); err != nil {
		return fmt.Errorf("pgtest: start PgBouncer: %w", err)
	}
	log, err := os.OpenFile(p.folder.logFile(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("pgtest: start PgBouncer: %w", err)
	}
	defer log.Close() //nolint:errcheck // the server has its own descriptor
	if err := acct.chown(file); err != nil {
		return fmt.Errorf("pgtest: start PgBouncer: %w", err)
	}
	cmd := exec.Command(bin, file) //nolint:noctx // ends by signal, see child
	cmd.Dir = p.folder.path
	cmd.Env = serverEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = acct.sysProcAttr()
	if p.server, err = launch(cmd); err != nil {
		return err
	}
	if err := p.folder.reaper.watch(p.server.process.Pid); err != nil {
		return err
	}
	return p.awaitReady(ctx)
}

// ini is PgBouncer's configuration. Whoever connects becomes the target's user:
// the port is on the loopback, and what is behind it is a test's.
func (p *Pooler) ini(target *pgconn.Config, connections int) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 2000
server_idle_timeout = 5
ignore_startup_parameters = extra_float_digits
`, target.Host, target.Port, quote(target.User), quote(target.Password), p.port, connections)
}

func (p *Pooler) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-p.server.done:
			said, _ := os.ReadFile(p.folder.logFile()) // without it the error says less
			return fmt.Errorf("pgtest: PgBouncer ended at once: %s", strings.TrimSpace(string(said)))
		case <-ctx.Done():
			return fmt.Errorf("pgtest: start PgBouncer: %w", context.Cause(ctx))
		case <-ticker.C:
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
		if err == nil {
			return conn.Close()
		}
	}
}

// URL returns the address of a database behind the pooler.
func (p *Pooler) URL(database string) string {
	return fmt.Sprintf("postgres://pooled@127.0.0.1:%d/%s?sslmode=disable", p.port, pathEscape(database))
}

// Stop ends the pooler, breaking its connections, and removes what it left. A
// second Stop does nothing.
func (p *Pooler) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	p.stopped = true
	var err error
	if p.server != nil {
		err = errors.Join(p.server.signal(syscall.SIGTERM), p.folder.reaper.watch(0))
	}
	return errors.Join(err, p.folder.remove())
}

// sharedPooler is in front of the cluster of this test binary, and lives as long.
var sharedPooler = sync.OnceValues(func() (*Pooler, error) {
	cluster, err := shared()
	if err != nil {
		return nil, err
	}
	return StartPooler(context.Background(), cluster.URL(""), 4)
})

// PooledURL returns the address of the database that url names on the cluster which
// all tests of this binary share, behind a PgBouncer in transaction mode that they
// share as well. It fails tb at once where no PgBouncer can be had.
func PooledURL(tb testing.TB, url string) string {
	tb.Helper()
	p, err := sharedPooler()
	if err != nil {
		tb.Fatal(err)
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	return p.URL(cfg.Database)
}
