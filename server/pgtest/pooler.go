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

// EnvPgBouncer names the environment variable with the file of PgBouncer, for a
// PgBouncer that is not on PATH.
const EnvPgBouncer = "PGTEST_PGBOUNCER"

// errNoPooler: this machine does not have PgBouncer.
var errNoPooler = errors.New("pgtest: no PgBouncer to be had: install it (pgbouncer on PATH), or name its file in " + EnvPgBouncer)

// A pooler is a PgBouncer in transaction mode in front of a server. Each
// transaction of a client may run on another of its connections, so the state
// of a session does not stay from one transaction to the next. startPooler
// makes a pooler. Its methods are safe for concurrent use.
type pooler struct {
	mu      sync.Mutex
	server  *child
	folder  *folder
	port    int
	stopped bool
}

// startPooler starts a PgBouncer for all databases of the server that url
// names, with that url's user, and returns when it takes connections.
// connections is how many it opens to each database. It cleans up like a
// [Cluster]. The error matches errNoPooler if this machine does not have
// PgBouncer.
func startPooler(ctx context.Context, url string, connections int) (*pooler, error) {
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
	p := &pooler{folder: dir}
	if err := p.start(ctx, bin, acct, target, connections); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// poolerFiles are the places where PgBouncer may be. Debian puts it in a folder
// that is not on a user's PATH.
var poolerFiles = []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"}

// findPooler returns the file of PgBouncer.
func findPooler() (string, error) {
	if file := os.Getenv(EnvPgBouncer); file != "" {
		if _, err := exec.LookPath(file); err != nil {
			return "", fmt.Errorf("%w: %w", errNoPooler, err)
		}
		return file, nil
	}
	for _, file := range poolerFiles {
		if found, err := exec.LookPath(file); err == nil {
			return found, nil
		}
	}
	return "", errNoPooler
}

func (p *pooler) start(ctx context.Context, bin string, acct *account, target *pgconn.Config, connections int) error {
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

// ini is PgBouncer's configuration. Every client becomes the target's user: the
// port is on the loopback, and the databases behind it are those of tests.
func (p *pooler) ini(target *pgconn.Config, connections int) string {
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

func (p *pooler) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-p.server.done:
			said, _ := os.ReadFile(p.folder.logFile()) // without the log the error says less
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

// url returns the address of a database behind the pooler.
func (p *pooler) url(database string) string {
	return fmt.Sprintf("postgres://pooled@127.0.0.1:%d/%s?sslmode=disable", p.port, pathEscape(database))
}

// stop ends the pooler, breaking its connections, and removes its files. A
// second stop does nothing.
func (p *pooler) stop() error {
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

// sharedPooler is in front of the cluster of this test binary, and lives as long as that cluster.
var sharedPooler = sync.OnceValues(func() (*pooler, error) {
	cluster, err := shared()
	if err != nil {
		return nil, err
	}
	return startPooler(context.Background(), cluster.URL(""), 4)
})

// PooledURL returns an address of url's database behind a PgBouncer in
// transaction mode. The database is on the cluster that all tests of this
// binary share, and they share the PgBouncer as well.
//
// PooledURL skips tb on a machine without PgBouncer. If [EnvPgBouncer] is set,
// PooledURL fails tb instead: set it where these tests have to run.
func PooledURL(tb testing.TB, url string) string {
	tb.Helper()
	if _, err := findPooler(); err != nil && os.Getenv(EnvPgBouncer) == "" {
		tb.Skip(err)
	} else if err != nil {
		tb.Fatal(err)
	}
	p, err := sharedPooler()
	if err != nil {
		tb.Fatal(err)
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	return p.url(cfg.Database)
}
