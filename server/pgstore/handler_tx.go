package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type contextKey struct{}

// NewContext implements [server.Tx], for [Tx].
func (t *tx) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, &handlerTx{root: t, tx: t.tx, refuse: ErrTxOwned})
}

// Tx returns the transaction of the run that ctx belongs to. What it writes is
// committed together with the run's answer, and rolled back with it.
//
// It is an ordinary [pgx.Tx], not safe for concurrent use, but for its end: its
// Commit and Rollback return [ErrTxOwned], because the guard ends it. Its Begin
// makes a savepoint, which can be committed and rolled back. Close all rows
// before the handler returns. After the run every method returns [ErrTxEnded].
//
// Where ctx carries no transaction, outside a Transactional run or a completion
// hook, every method returns [ErrNoTx], Conn returns nil, and the LargeObjects
// must not be used.
func Tx(ctx context.Context) pgx.Tx {
	if t, ok := ctx.Value(contextKey{}).(*handlerTx); ok {
		return t
	}
	return refusedTx{ErrNoTx}
}

// handlerTx is the transaction, or a savepoint in it, as handlers see it.
type handlerTx struct {
	root   *tx
	tx     pgx.Tx
	refuse error // to end it; nil for a savepoint
}

// current stands between a goroutine that outlived its run and a connection
// that may belong to another run by now.
func (t *handlerTx) current() pgx.Tx {
	if t.root.ended.Load() {
		return refusedTx{ErrTxEnded}
	}
	return t.tx
}

// ending is current for the methods that end the transaction or savepoint.
func (t *handlerTx) ending() pgx.Tx {
	if t.refuse != nil {
		return refusedTx{t.refuse}
	}
	return t.current()
}

// Begin makes a savepoint.
func (t *handlerTx) Begin(ctx context.Context) (pgx.Tx, error) {
	savepoint, err := t.current().Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &handlerTx{root: t.root, tx: savepoint}, nil
}

func (t *handlerTx) Commit(ctx context.Context) error   { return t.ending().Commit(ctx) }
func (t *handlerTx) Rollback(ctx context.Context) error { return t.ending().Rollback(ctx) }

func (t *handlerTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return t.current().CopyFrom(ctx, table, columns, rows)
}

func (t *handlerTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return t.current().SendBatch(ctx, b)
}

func (t *handlerTx) LargeObjects() pgx.LargeObjects { return t.current().LargeObjects() }

func (t *handlerTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return t.current().Prepare(ctx, name, sql)
}

func (t *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.current().Exec(ctx, sql, args...)
}

func (t *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.current().Query(ctx, sql, args...)
}

func (t *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.current().QueryRow(ctx, sql, args...)
}

func (t *handlerTx) Conn() *pgx.Conn { return t.current().Conn() }
