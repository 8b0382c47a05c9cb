package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// These are the errors that a Cluster's methods return, wrapped if a fact is added.
var (
	// ErrStopped: the cluster was stopped.
	ErrStopped = errors.New("pgtest: cluster is stopped")
	// ErrNotPrivate: the server is that of DATABASE_URL, which pgtest must not crash.
	ErrNotPrivate = errors.New("pgtest: not a private cluster")
	// ErrBadName: the database name is empty, too long or has a NUL byte.
	ErrBadName = errors.New("pgtest: bad database name")
)

// A Cluster is a Postgres server on which databases are created: a private
// server, or that of DATABASE_URL. All its methods are safe for concurrent use.
// [Start] makes a Cluster.
type Cluster struct {
	mu      sync.Mutex
	stopped bool
	admins  []*pgx.Conn // idle, see asAdmin
	private *postmaster // nil: the server is tenant's
	tenant  *tenant     // nil: the server is private
}

// Start returns a cluster whose server takes connections. Starting a private
// one takes about half a second. It blocks until then, at most until ctx ends
// or a minute has passed. ctx does not bound the cluster's lifetime: stop the
// cluster with [Cluster.Stop]. A program that dies before that leaves no
// process or folder.
//
// The error matches [ErrUnavailable] if this machine does not have Postgres.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if url := os.Getenv(EnvDatabaseURL); url != "" && !cfg.wantsPrivate() {
		t, err := newTenant(ctx, url)
		if err != nil {
			return nil, err
		}
		return &Cluster{tenant: t}, nil
	}
	p, err := newPostmaster(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{private: p}, nil
}

// Private reports whether the server is one that Start started, so that
// [Cluster.Kill] and [Cluster.Restart] work.
func (c *Cluster) Private() bool { return c.private != nil }

// URL returns the connection URL of database, which need not exist. The empty name means the database that every
// server has: "postgres", or that of DATABASE_URL. The URL contains the password. It stays valid after [Cluster.Kill]
// and [Cluster.Restart].
func (c *Cluster) URL(database string) string {
	if c.tenant != nil {
		return c.tenant.url(database)
	}
	if database == "" {
		database = "postgres"
	}
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/%s?sslmode=disable", c.private.password, c.private.port, pathEscape(database))
}

// Kill ends the server of a private cluster with SIGKILL to the postmaster, as the kernel does when memory runs out.
// It returns when the postmaster has ended. The backends notice that on their own, and a backend in the middle of a
// statement may still commit it. The data stays, for [Cluster.Restart]. If the server is already down, Kill does
// nothing.
//
// The error is [ErrNotPrivate] or [ErrStopped], or that of the signal.
func (c *Cluster) Kill() error {
	return c.withServer(func(p *postmaster) error { return p.stop(syscall.SIGKILL) })
}

// Restart starts the server of a private cluster again, on the same port with the same
// data, and returns when it takes connections. A server that runs is shut down
// first, breaking its connections. After [Cluster.Kill] it waits for the dead server's
// last processes, as long as ctx allows and at most a minute.
//
// The error is [ErrNotPrivate] or [ErrStopped], or says what Postgres logged.
func (c *Cluster) Restart(ctx context.Context) error {
	return c.withServer(func(p *postmaster) error {
		if err := p.stop(syscall.SIGINT); err != nil {
			return err
		}
		return p.restart(ctx)
	})
}

// Stop ends a private cluster and removes all its files from the machine. On the server of DATABASE_URL it drops the
// databases that this cluster created. It breaks the connections that are open. A second Stop does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	c.stopped = true
	if c.tenant != nil {
		return c.tenant.leave()
	}
	defer c.closeAdmins() // afterwards: a stopped process would not answer
	return c.private.destroy()
}

func (c *Cluster) withServer(do func(*postmaster) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.private == nil:
		return ErrNotPrivate
	case c.stopped:
		return ErrStopped
	}
	return do(c.private)
}
