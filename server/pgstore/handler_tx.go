package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type contextKey struct{}

// NewContext implements [store.Tx], for [Tx].
func (t *tx) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, &handlerTx{root: t, refuse: ErrTxOwned})
}

// Tx returns the transaction of the run that ctx belongs to. Its writes are committed together with
// the run's answer, and rolled back with it.
//
// It is an ordinary [pgx.Tx], not safe for concurrent use, but for its end: its
// Commit and Rollback return [ErrTxOwned], because the guard ends it. Its Begin
// makes a savepoint, which can be committed and rolled back. Close all rows
// before the handler returns. After the run every method returns [ErrTxEnded].
//
// The first statement takes a connection from the pool, for which it may have to wait, and begins
// the transaction. A Query, a QueryRow, an Exec with arguments and a SendBatch do that in their own
// round trip (what traces queries sees a batch); the others need one more. If that fails the
// transaction has failed, as after any statement that fails. Conn and LargeObjects begin it, too:
// Conn returns nil where that fails.
//
// ctx carries no transaction outside a Transactional run, a completion hook and [Store.OnceFunc].
// Then every method returns [ErrNoTx], Conn returns nil, and the LargeObjects must not be used.
func Tx(ctx context.Context) pgx.Tx {
	if t, ok := ctx.Value(contextKey{}).(*handlerTx); ok {
		return t
	}
	return refusedTx{ErrNoTx}
}

// handlerTx is the transaction, or a savepoint in it, as handlers see it.
type handlerTx struct {
	root      *tx
	savepoint pgx.Tx // nil: the transaction itself
	refuse    error  // to end it; nil for a savepoint
}

// current is where a statement goes that does not begin the transaction.
func (t *handlerTx) current(ctx context.Context) pgx.Tx {
	tx := t.root.current(ctx)
	if _, refused := tx.(refusedTx); refused || t.savepoint == nil {
		return tx
	}
	return t.savepoint
}

// ending is current for the methods that end the transaction or savepoint.
func (t *handlerTx) ending(ctx context.Context) pgx.Tx {
	if t.refuse != nil {
		return refusedTx{t.refuse}
	}
	return t.current(ctx)
}

// begins reports whether a statement with these arguments can be sent together
// with BEGIN, and is due to. Options among them say how a statement is sent alone.
func (t *handlerTx) begins(args []any) bool {
	for _, arg := range args {
		switch arg.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return false
		}
	}
	return t.root.idle()
}

// Begin makes a savepoint.
func (t *handlerTx) Begin(ctx context.Context) (pgx.Tx, error) {
	savepoint, err := t.current(ctx).Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &handlerTx{root: t.root, savepoint: savepoint}, nil
}

func (t *handlerTx) Commit(ctx context.Context) error   { return t.ending(ctx).Commit(ctx) }
func (t *handlerTx) Rollback(ctx context.Context) error { return t.ending(ctx).Rollback(ctx) }

func (t *handlerTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return t.current(ctx).CopyFrom(ctx, table, columns, rows)
}

func (t *handlerTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if b.Len() == 0 || begins(b) || !t.root.idle() { // one that begins a transaction is refused inside of one
		return watchedResults{t.current(ctx).SendBatch(ctx, b), t.root}
	}
	results, err := t.root.beginWith(ctx, b.QueuedQueries...)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return firstResults{results}
}

func (t *handlerTx) LargeObjects() pgx.LargeObjects { return t.current(t.root.runs).LargeObjects() }

func (t *handlerTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return t.current(ctx).Prepare(ctx, name, sql)
}

// Exec without arguments may have several statements. pgx sends them in the simple protocol, which
// a batch cannot use.
func (t *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if len(args) == 0 || !t.begins(args) {
		tx, args := t.named(ctx, args)
		return tx.Exec(ctx, sql, args...)
	}
	rows, err := t.root.beginQuery(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

func (t *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if sql == "" || !t.begins(args) {
		tx, args := t.named(ctx, args)
		return tx.Query(ctx, sql, args...)
	}
	return t.root.beginQuery(ctx, sql, args)
}

func (t *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if sql == "" || !t.begins(args) {
		tx, args := t.named(ctx, args)
		return tx.QueryRow(ctx, sql, args...)
	}
	rows, _ := t.root.beginQuery(ctx, sql, args) // its error is the rows'
	return firstRow{rows}
}

func (t *handlerTx) Conn() *pgx.Conn { return t.current(t.root.runs).Conn() }
