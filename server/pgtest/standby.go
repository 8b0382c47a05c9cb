package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartStandby starts a second server that follows the private cluster c by streaming replication. It returns when
// every commit on c waits until it is also durable on the standby (synchronous_standby_names). The standby takes
// connections that read. Kill c and [Cluster.Promote] the standby to fail over; [FailoverURL] finds the server that
// accepts writes. Stop both.
//
// It blocks until ctx ends or a minute has passed. The error is [ErrNotPrivate] or
// [ErrStopped], or says what Postgres logged.
func (c *Cluster) StartStandby(ctx context.Context) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var standby *postmaster
	name := "standby_" + strings.ToLower(rand.Text()[:8])
	primaryURL := c.URL("")
	err := c.withServer(func(p *postmaster) (err error) {
		standby, err = p.follow(ctx, name, primaryURL)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.awaitSync(ctx, name); err != nil {
		return nil, errors.Join(err, standby.destroy())
	}
	return &Cluster{private: standby}, nil
}

// follow starts a standby of that name from a copy of p's data.
func (p *postmaster) follow(ctx context.Context, name, primaryURL string) (*postmaster, error) {
	dir, err := newFolder(p.acct, p.durable)
	if err != nil {
		return nil, err
	}
	s := &postmaster{bin: p.bin, acct: p.acct, folder: dir, durable: p.durable, options: p.options, password: p.password}
	err = s.copyOf(ctx, p, name, primaryURL)
	if err == nil {
		err = s.startOnFreePort(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.destroy())
	}
	return s, nil
}

// copyOf fills s's data folder from the data folder of a running server, by the
// low-level backup API: pg_basebackup is not installed with every server.
func (p *postmaster) copyOf(ctx context.Context, from *postmaster, name, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("pgtest: standby: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // a backup that was not ended ends with it
	if _, err := conn.Exec(ctx, "select pg_backup_start($1, true)", name); err != nil {
		return fmt.Errorf("pgtest: standby: %w", err)
	}
	if err := copyData(p.folder.data(), from.folder.data()); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, "select labelfile from pg_backup_stop(false)").Scan(&label); err != nil {
		return fmt.Errorf("pgtest: standby: %w", err)
	}
	source := fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=postgres password=%s application_name=%s'\n", from.port, from.password, name)
	for file, text := range map[string]string{"backup_label": label, "standby.signal": "", "postgresql.auto.conf": source} {
		if err := os.WriteFile(filepath.Join(p.folder.data(), file), []byte(text), 0o600); err != nil {
			return fmt.Errorf("pgtest: standby: %w", err)
		}
	}
	return filepath.WalkDir(p.folder.data(), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, p.acct.chown(path))
	})
}

// copyData copies a data folder that is in use. Files may disappear meanwhile,
// and copyData leaves out the files of the running process.
func copyData(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pgtest: standby: %w", err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return fmt.Errorf("pgtest: standby: %w", err)
		}
		switch {
		case entry.IsDir():
			err = os.MkdirAll(filepath.Join(to, name), 0o700)
		case name == "postmaster.pid", name == "postmaster.opts", filepath.Dir(name) == "pg_dynshmem":
		default:
			err = copyFile(filepath.Join(to, name), path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pgtest: standby: %w", err)
		}
		return nil
	})
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// awaitSync makes commits wait for the standby, and returns when they do.
func (c *Cluster) awaitSync(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, c.URL(""))
	if err != nil {
		return fmt.Errorf("pgtest: standby: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it was only read from
	for _, sql := range []string{
		"alter system set synchronous_standby_names = '" + name + "'",
		"select pg_reload_conf()",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("pgtest: standby: %w", err)
		}
	}
	for {
		var sync bool
		err := conn.QueryRow(ctx, `select current_setting('synchronous_standby_names') = $1 and exists (
			select from pg_stat_replication where application_name = $1 and sync_state = 'sync')`, name).Scan(&sync)
		switch {
		case err != nil:
			return fmt.Errorf("pgtest: standby: %w", err)
		case sync:
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return fmt.Errorf("pgtest: standby: %w", context.Cause(ctx))
		}
	}
}

// Promote makes a standby a server that accepts writes, and returns when it
// does. A server that is not a standby does not change.
func (c *Cluster) Promote(ctx context.Context) error {
	if c.private == nil {
		return ErrNotPrivate
	}
	conn, err := pgx.Connect(ctx, c.URL(""))
	if err != nil {
		return fmt.Errorf("pgtest: promote: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // as above
	var promoted bool
	err = conn.QueryRow(ctx, "select case when pg_is_in_recovery() then pg_promote(true, 60) else true end").Scan(&promoted)
	if err == nil && !promoted {
		err = errors.New("it did not end recovery in a minute")
	}
	if err != nil {
		return fmt.Errorf("pgtest: promote: %w", err)
	}
	return nil
}

// FailoverURL returns the URL of a database that clusters share, such as a
// primary and its standbys. A connection goes to the server that accepts
// writes.
func FailoverURL(database string, clusters ...*Cluster) (string, error) {
	var hosts []string
	var joint *url.URL
	for _, c := range clusters {
		u, err := url.Parse(c.URL(database))
		if err != nil {
			return "", fmt.Errorf("pgtest: failover URL: %w", err)
		}
		if joint == nil {
			joint = u
		}
		hosts = append(hosts, net.JoinHostPort(u.Hostname(), u.Port()))
	}
	if joint == nil {
		return "", fmt.Errorf("pgtest: failover URL: %s clusters", strconv.Itoa(len(clusters)))
	}
	joint.Host = strings.Join(hosts, ",")
	query := joint.Query()
	query.Set("target_session_attrs", "read-write")
	joint.RawQuery = query.Encode()
	return joint.String(), nil
}
