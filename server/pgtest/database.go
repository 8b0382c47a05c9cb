package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// longestName leaves room for a tenant's prefix in the 63 bytes of a Postgres name.
const longestName = 40

// CreateDatabase creates an empty database and returns its URL, which is that of
// [Cluster.URL]. The name has 1 to 40 bytes. On the server of DATABASE_URL
// the database's real name has a prefix, so that it cannot clash with yours.
//
// It returns an error wrapping [ErrBadName] for a name that is not allowed, [ErrStopped], or the
// server's error, such as that the database exists.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) (string, error) {
	if err := c.createFrom(ctx, name, "template0"); err != nil {
		return "", err
	}
	return c.URL(name), nil
}

// DropDatabase drops a database that CreateDatabase created, and breaks the connections to it. A database that does
// not exist does not cause an error. Errors are those of [Cluster.CreateDatabase].
func (c *Cluster) DropDatabase(ctx context.Context, name string) error {
	if err := c.usable(name); err != nil {
		return err
	}
	if err := c.exec(ctx, "drop database if exists "+c.quoteName(name)+" with (force)"); err != nil {
		return fmt.Errorf("pgtest: drop database %s: %w", name, err)
	}
	return nil
}

// createFrom creates a database as a copy of template, to which no session may
// be connected. An empty database is a copy of template0, not of the default
// template1: a session in template1 would make every creation fail.
func (c *Cluster) createFrom(ctx context.Context, name, template string) error {
	if err := c.usable(name); err != nil {
		return err
	}
	if template != "template0" {
		template = c.quoteName(template)
	}
	if err := c.copyDatabase(ctx, c.quoteName(name), template); err != nil {
		return fmt.Errorf("pgtest: create database %s: %w", name, err)
	}
	return nil
}

// copyDatabase creates a database from a template. From version 15 on, Postgres logs every page of the copy unless
// it is asked to copy files, which takes half the time here. Copying files needs a checkpoint. So a durable server
// is not asked, nor that of DATABASE_URL, which may have other users.
func (c *Cluster) copyDatabase(ctx context.Context, name, template string) error {
	return c.asAdmin(ctx, func(conn *pgx.Conn) error {
		sql := "create database " + name + " template " + template
		if c.Private() && !c.private.durable && majorVersion(conn) >= 15 {
			sql += " strategy file_copy"
		}
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// majorVersion is 0 if the server's name for its version does not begin with a number.
func majorVersion(conn *pgx.Conn) int {
	major, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), ".")
	n, _ := strconv.Atoi(major) // for a beta this is 0, and Postgres logs the pages
	return n
}

func (c *Cluster) usable(name string) error {
	if name == "" || len(name) > longestName || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w %q: want 1 to %d bytes without NUL", ErrBadName, name, longestName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return ErrStopped
	}
	return nil
}

// quoteName is the SQL identifier of the database called name.
func (c *Cluster) quoteName(name string) string {
	if c.tenant != nil {
		name = c.tenant.realName(name)
	}
	return pgx.Identifier{name}.Sanitize()
}

func (c *Cluster) exec(ctx context.Context, sql string) error {
	return c.asAdmin(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func pathEscape(name string) string { return url.PathEscape(name) }
