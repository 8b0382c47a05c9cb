package pgkit_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// losing makes connections that break once they have sent what contains text: its
// answer is lost.
func losing(text string) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) {
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &losingConn{Conn: conn, text: []byte(text)}, err
		}
	}
}

// losingConn is used by one goroutine at a time.
type losingConn struct {
	net.Conn

	text []byte
	sent bool
}

func (c *losingConn) Write(b []byte) (int, error) {
	c.sent = c.sent || bytes.Contains(b, c.text)
	return c.Conn.Write(b)
}

func (c *losingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b) // the server has done it by then
	if c.sent && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// The answer to a COMMIT gets lost, and with it whether there was one: pgx calls that
// safe to retry.
func TestTx_commitLost(t *testing.T) {
	t.Parallel()
	pool := newPool(t, losing("commit\x00"))
	w := newWriter(t, pool, 0)
	exec(t, pool, "create table t (a int)")
	_, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, "insert into t values ($1)", 1)
		return tag.RowsAffected(), err
	})
	require.ErrorIs(t, err, pgkit.ErrFateUnknown)
	require.Equal(t, 1, queryRow[int](t, pool, "select count(*) from t"), "it was committed")
}

// Before COMMIT nothing can have become durable.
func TestTx_lostBeforeCommit(t *testing.T) {
	t.Parallel()
	pool := newPool(t, losing("insert into t "))
	w := newWriter(t, pool, 0)
	exec(t, pool, "create table t (a int)")
	_, err := pgkit.Tx(t.Context(), w, func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, "insert into t values (1)")
		return tag.RowsAffected(), err
	})
	require.Error(t, err)
	require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
	require.Zero(t, queryRow[int](t, pool, "select count(*) from t"))
}
