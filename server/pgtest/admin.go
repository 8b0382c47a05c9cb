package pgtest

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// asAdmin calls do with a connection to the database that every server has. A private cluster keeps the connection for
// the next call: tests create and drop a database each, and a new connection takes longer than the rest of it.
func (c *Cluster) asAdmin(ctx context.Context, do func(conn *pgx.Conn) error) error {
	conn := c.idleAdmin(ctx)
	if conn == nil {
		var err error
		if conn, err = pgx.Connect(ctx, c.URL("")); err != nil {
			return err
		}
	}
	err := do(conn)
	if c.keepAdmin(conn) {
		return err
	}
	return errors.Join(err, conn.Close(ctx))
}

// idleAdmin returns a kept connection that still works, or nil. A killed or restarted server has broken them.
func (c *Cluster) idleAdmin(ctx context.Context) *pgx.Conn {
	for {
		conn := c.takeAdmin()
		if conn == nil || conn.Ping(ctx) == nil {
			return conn
		}
		conn.Close(ctx) //nolint:errcheck // it is broken
	}
}

func (c *Cluster) takeAdmin() *pgx.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.admins) == 0 {
		return nil
	}
	last := len(c.admins) - 1
	conn := c.admins[last]
	c.admins = c.admins[:last]
	return conn
}

// keepAdmin reports whether conn is kept. The server of DATABASE_URL has other users, who may need the place.
func (c *Cluster) keepAdmin(conn *pgx.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.private == nil || c.stopped || conn.IsClosed() {
		return false
	}
	c.admins = append(c.admins, conn)
	return true
}

// closeAdmins closes the kept connections. The caller holds c.mu.
func (c *Cluster) closeAdmins() {
	for _, conn := range c.admins {
		conn.Close(context.Background()) //nolint:errcheck // the server goes
	}
	c.admins = nil
}
