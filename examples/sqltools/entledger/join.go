package entledger

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/sql"

	"github.com/fanonce/fanonce/examples/sqltools/entledger/ent"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Join returns a client for the run that ctx belongs to. All that is done with it is done in the transaction of the run.
// It costs an allocation or two, and sends nothing.
func Join(ctx context.Context) (*ent.Client, error) {
	tx, err := pgstore.SQLTx(ctx)
	if err != nil {
		return nil, err
	}
	return ent.NewClient(ent.Driver(&runDriver{Driver: sql.NewDriver(dialect.Postgres, sql.Conn{ExecQuerier: tx})})), nil
}

// runDriver is ent's driver over the transaction of a run. Ent's own would begin another one for each update, and panics
// if its connection is a transaction already. This one makes savepoints.
type runDriver struct {
	*sql.Driver

	made atomic.Int64 // savepoints
}

var _ dialect.Driver = (*runDriver)(nil)

// errIsolation: the transaction has begun, and has its level.
var errIsolation = errors.New("entledger: the isolation of a run is that of its store")

// Tx implements [dialect.Driver] with a savepoint.
func (d *runDriver) Tx(ctx context.Context) (dialect.Tx, error) {
	name := fmt.Sprintf("ent_%d", d.made.Add(1))
	if _, err := d.ExecContext(ctx, "savepoint "+name); err != nil {
		return nil, err
	}
	return &savepoint{ExecQuerier: d.Driver, ctx: ctx, name: name, tx: d}, nil
}

// BeginTx is for the client's method of that name.
func (d *runDriver) BeginTx(ctx context.Context, opts *stdsql.TxOptions) (dialect.Tx, error) {
	if opts != nil && *opts != (stdsql.TxOptions{}) {
		return nil, errIsolation
	}
	return d.Tx(ctx)
}

// Close leaves the connection to the run.
func (d *runDriver) Close() error { return nil }

// A savepoint is what ent takes for a transaction.
type savepoint struct {
	dialect.ExecQuerier

	ctx  context.Context //nolint:containedctx // dialect.Tx has none for its end
	name string
	tx   *runDriver
}

// Commit keeps what was done since the savepoint. The run commits it, or does not.
func (s *savepoint) Commit() error {
	_, err := s.tx.ExecContext(s.ctx, "release savepoint "+s.name)
	return err
}

// Rollback takes back what was done since the savepoint.
func (s *savepoint) Rollback() error {
	_, err := s.tx.ExecContext(s.ctx, "rollback to savepoint "+s.name+"; release savepoint "+s.name)
	return err
}
