package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// SQLTx returns the transaction of the run that ctx belongs to for database/sql: the same as
// [Tx]'s, on the same connection. The writes of both are committed together with the run's answer,
// and rolled back with it. Called again in the same run it returns the same.
//
// It is an ordinary [sql.Tx] except for its end: Commit and Rollback return [ErrTxOwned], because
// the guard ends the transaction. After either it is of no more use. Close all rows before the
// handler returns, and use it and [Tx] one after the other: they share a connection. After the run
// its methods return [sql.ErrTxDone].
//
// For a savepoint send the statements "savepoint name" and "rollback to savepoint name". A [sql.Stmt]
// that was prepared on another pool does not work in it. The folder examples/integrations/sqltools joins sqlc, GORM
// and ent.
//
// It returns [ErrNoTx] where ctx carries no transaction, and [ErrTxEnded] after
// the run. It sends nothing: the first statement begins the transaction, as with
// [Tx], in its own round trip if it is an Exec with arguments.
func SQLTx(ctx context.Context) (*sql.Tx, error) {
	t, ok := store.TxFromContext(ctx).(*handlerTx)
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

// Conn implements pgkit.Held.
func (h *held) Conn() *pgx.Conn { return h.std.Conn() }

// Release implements pgkit.Held.
func (h *held) Release() { _ = h.std.Close() } // back to the pool: nothing can fail

// sqlView is a transaction as database/sql sees it: a pool of one connection, on
// which the transaction seems to have been begun already.
type sqlView struct {
	mu sync.Mutex
	db *sql.DB
	tx *sql.Tx
}

func (v *sqlView) open(root *tx) (*sql.Tx, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case root.hasEnded():
		return nil, ErrTxEnded
	case v.tx != nil:
		return v.tx, nil
	}
	db := sql.OpenDB(&runConnector{root})
	// Its own ctx must not end it: the run's may end before the run does.
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, wrap("database/sql", errors.Join(err, db.Close()))
	}
	v.db, v.tx = db, tx
	return tx, nil
}

func (v *sqlView) isUsed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.tx != nil
}

// close ends only database/sql's view of the transaction.
func (v *sqlView) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tx == nil {
		return
	}
	_ = v.tx.Rollback() // ErrTxOwned, or the handler tried
	_ = v.db.Close()    // of one connection, which is not closed
}

// A runConnector hands out the connection of a run, which may not have one yet.
type runConnector struct{ root *tx }

func (c *runConnector) Connect(context.Context) (driver.Conn, error) { return &runConn{c.root}, nil }

func (c *runConnector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// A runConn is the connection without its beginning and its end: both are the
// run's.
type runConn struct{ root *tx }

var (
	_ driver.ConnBeginTx        = (*runConn)(nil)
	_ driver.ConnPrepareContext = (*runConn)(nil)
	_ driver.QueryerContext     = (*runConn)(nil)
	_ driver.ExecerContext      = (*runConn)(nil)
	_ driver.NamedValueChecker  = (*runConn)(nil)
)

// begun returns the driver's own connection, with the transaction begun.
func (c *runConn) begun(ctx context.Context) (*stdlib.Conn, error) {
	if refused, ok := c.root.current(ctx).(pgkit.RefusedTx); ok {
		return nil, refused.Err
	}
	return c.root.conn.std, nil
}

// ExecContext does what the driver's does, and begins the transaction if it is the
// first statement.
func (c *runConn) ExecContext(ctx context.Context, query string, named []driver.NamedValue) (driver.Result, error) {
	args := make([]any, len(named))
	for i, n := range named {
		args[i] = n.Value
	}
	tag, err := (&handlerTx{root: c.root}).Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

// QueryContext cannot: the rows are the driver's.
func (c *runConn) QueryContext(ctx context.Context, query string, named []driver.NamedValue) (driver.Rows, error) {
	conn, err := c.begun(ctx)
	if err != nil {
		return nil, err
	}
	return conn.QueryContext(ctx, query, named)
}

func (c *runConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	conn, err := c.begun(ctx)
	if err != nil {
		return nil, err
	}
	return conn.PrepareContext(ctx, query)
}

func (c *runConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(c.root.runs, query)
}

// CheckNamedValue leaves arguments to pgx, as the driver does.
func (c *runConn) CheckNamedValue(*driver.NamedValue) error { return nil }

func (c *runConn) Begin() (driver.Tx, error) { return begunTx{}, nil }

func (c *runConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return begunTx{}, nil
}

func (c *runConn) Close() error { return nil }

// ResetSession and IsValid keep database/sql from pinging.
func (c *runConn) ResetSession(context.Context) error { return nil }

func (c *runConn) IsValid() bool { return true }

type begunTx struct{}

func (begunTx) Commit() error   { return ErrTxOwned }
func (begunTx) Rollback() error { return ErrTxOwned }
