package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fanonce/fanonce/server/pgkit"
)

// SQLTx returns the transaction of the run that ctx belongs to for database/sql:
// the same as [Tx]'s, on the same connection. What is written with either is
// committed together with the run's answer, and rolled back with it. Called again
// in the same run it returns the same.
//
// It is an ordinary [sql.Tx] but for its end: Commit and Rollback return
// [ErrTxOwned], because the guard ends the transaction, and after either it is of
// no more use. Close all rows before the handler returns, and use it and [Tx]
// one after the other: they share a connection. After the run its methods return
// [sql.ErrTxDone].
//
// It returns [ErrNoTx] where ctx carries no transaction, and [ErrTxEnded] after
// the run. It sends nothing.
func SQLTx(ctx context.Context) (*sql.Tx, error) {
	t, ok := ctx.Value(contextKey{}).(*handlerTx)
	if !ok {
		return nil, ErrNoTx
	}
	return t.root.sql.open(t.root)
}

// held is a pool's connection that database/sql's driver can use as well.
type held struct{ std *stdlib.Conn }

var _ pgkit.Held = (*held)(nil)

// hold takes a connection from the pool.
func (s *Store) hold(ctx context.Context) (*held, error) {
	conn, err := s.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &held{conn.(*stdlib.Conn)}, nil //nolint:errcheck,forcetypeassert // the connector's own type
}

// Conn implements [pgkit.Held].
func (h *held) Conn() *pgx.Conn { return h.std.Conn() }

// Release implements [pgkit.Held].
func (h *held) Release() { _ = h.std.Close() } // back to the pool: nothing can fail

// sqlView is a transaction as database/sql sees it: a pool of one connection, on
// which the transaction has been begun already.
type sqlView struct {
	mu sync.Mutex
	db *sql.DB
	tx *sql.Tx
}

func (v *sqlView) open(root *tx) (*sql.Tx, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case root.ended.Load():
		return nil, ErrTxEnded
	case v.tx != nil:
		return v.tx, nil
	}
	db := sql.OpenDB(&begunConnector{root.conn.std})
	// Its own ctx must not end it: the run's may end before the run does.
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, wrap("database/sql", errors.Join(err, db.Close()))
	}
	v.db, v.tx = db, tx
	return tx, nil
}

// close ends what database/sql knows of the transaction, and nothing else.
func (v *sqlView) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tx == nil {
		return
	}
	_ = v.tx.Rollback() // ErrTxOwned, or the handler tried
	_ = v.db.Close()    // of one connection, which is not closed
}

// A begunConnector hands out a connection that is in a transaction.
type begunConnector struct{ conn *stdlib.Conn }

func (c *begunConnector) Connect(context.Context) (driver.Conn, error) {
	return &begunConn{c.conn}, nil
}

func (c *begunConnector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// A begunConn is the connection without its beginning and its end: both are the
// run's.
type begunConn struct{ *stdlib.Conn }

var (
	_ driver.ConnBeginTx       = (*begunConn)(nil)
	_ driver.QueryerContext    = (*begunConn)(nil)
	_ driver.ExecerContext     = (*begunConn)(nil)
	_ driver.NamedValueChecker = (*begunConn)(nil)
)

func (c *begunConn) Begin() (driver.Tx, error) { return begunTx{}, nil }

func (c *begunConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return begunTx{}, nil
}

func (c *begunConn) Close() error { return nil }

// ResetSession and IsValid keep database/sql from pinging.
func (c *begunConn) ResetSession(context.Context) error { return nil }

func (c *begunConn) IsValid() bool { return true }

type begunTx struct{}

func (begunTx) Commit() error   { return ErrTxOwned }
func (begunTx) Rollback() error { return ErrTxOwned }
