package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// NewContext implements [store.Tx], for [Tx].
func (t *tx) NewContext(ctx context.Context) context.Context {
	return store.NewTxContext(ctx, &handlerTx{root: t, refuse: ErrTxOwned})
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
// A handler may set a search_path or a role for its transaction, as services with many tenants do: the guard's own
// statements run with those of the pool. Use SET LOCAL: after SET, other users of the connection have the setting, too.
// The first run of a process whose role may not write the guard's tables has a second turn. With [Distribute] or
// SET SESSION AUTHORIZATION the role must stay, or be reset before the handler returns: else the run fails with
// transaction-failed.
//
// ctx carries no transaction outside a Transactional run, a completion hook and [Store.OnceFunc]. A Keyed or Opaque
// run inside a Transactional one has none: it is settled by itself, so its rows must not depend on the outer run.
// Then every method returns [ErrNoTx], Conn returns nil, and the LargeObjects must not be used.
func Tx(ctx context.Context) pgx.Tx {
	if t, ok := store.TxFromContext(ctx).(*handlerTx); ok {
		return t
	}
	return pgkit.RefusedTx{Err: ErrNoTx}
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
	if _, refused := tx.(pgkit.RefusedTx); refused || t.savepoint == nil {
		return tx
	}
	return t.savepoint
}

// ending is current for the methods that end the transaction or savepoint.
func (t *handlerTx) ending(ctx context.Context) pgx.Tx {
	if t.refuse != nil {
		return pgkit.RefusedTx{Err: t.refuse}
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
	return t.root.isIdle()
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
	for _, q := range b.QueuedQueries {
		t.root.watchFor(q.SQL)
	}
	if b.Len() == 0 || begins(b) || !t.root.isIdle() { // one that begins a transaction is refused inside of one
		return watchedResults{t.current(ctx).SendBatch(ctx, b), t.root}
	}
	results, err := t.root.beginWith(ctx, b.QueuedQueries...)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return firstResults{results}
}

// begins reports whether b begins a transaction by itself. Only the results that b makes of a failure show that.
func begins(b *pgx.Batch) bool { return pgx.FailedBatchResults(b, ErrTxOwned).Tx() != nil }

func (t *handlerTx) LargeObjects() pgx.LargeObjects { return t.current(t.root.runs).LargeObjects() }

func (t *handlerTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return t.current(ctx).Prepare(ctx, name, sql)
}

// Exec without arguments may have several statements. pgx sends them in the simple protocol, which
// a batch cannot use.
func (t *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	t.root.watchFor(sql)
	if len(args) == 0 || !t.begins(args) {
		tx, args := t.prepareArgs(ctx, args)
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
	t.root.watchFor(sql)
	if sql == "" || !t.begins(args) {
		tx, args := t.prepareArgs(ctx, args)
		return tx.Query(ctx, sql, args...)
	}
	return t.root.beginQuery(ctx, sql, args)
}

func (t *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	t.root.watchFor(sql)
	if sql == "" || !t.begins(args) {
		tx, args := t.prepareArgs(ctx, args)
		return tx.QueryRow(ctx, sql, args...)
	}
	rows, _ := t.root.beginQuery(ctx, sql, args) // its error is the rows'
	return firstRow{rows}
}

func (t *handlerTx) Conn() *pgx.Conn { return t.current(t.root.runs).Conn() }

// firstRows are the rows of a statement that was sent together with BEGIN. As pgx
// does with those of a Query, they end where nothing more can be read: the
// connection is of no use before.
type firstRows struct {
	pgx.Rows

	batch pgx.BatchResults
	err   error // of the batch
}

func (r *firstRows) Close() {
	r.Rows.Close()
	r.err = r.batch.Close()
}

// Err is the rows' own error if they have one: the error of the batch is the same.
func (r *firstRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

func (r *firstRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *firstRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

func (r *firstRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// A firstRow is the pgx.Row of a QueryRow that was sent together with BEGIN.
type firstRow struct{ rows pgx.Rows }

var errDriverBytes = errors.New("pgstore: cannot scan into *pgtype.DriverBytes from QueryRow")

// Scan is as that of the [pgx.Row] of a QueryRow.
func (r firstRow) Scan(dest ...any) error {
	defer r.rows.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok { // it would hold memory that is used again
			return errDriverBytes
		}
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// firstResults are the results of a handler's batch that was sent together with
// BEGIN. The transaction is not the batch's to hand out.
type firstResults struct{ pgx.BatchResults }

func (firstResults) Tx() pgx.Tx { return nil }

// prepareArgs returns where a statement goes that does not begin the transaction, and its arguments. The
// statement is prepared by name where names can last, as pgx would do by itself: the pool's exec
// mode is a mode that works behind a pooler. A statement that travels with BEGIN is named before,
// because a batch takes no such option. An option among the arguments overrides ours, which comes
// first.
func (t *handlerTx) prepareArgs(ctx context.Context, args []any) (pgx.Tx, []any) {
	tx := t.current(ctx)
	if conn := tx.Conn(); len(args) > 0 && conn != nil && pgkit.MayName(conn) {
		args = append([]any{pgx.QueryExecModeCacheStatement}, args...)
	}
	return tx, args
}

// OnComplete makes fn part of the completion of the Keyed run that ctx belongs to. After the
// handler has returned a status below 400, fn runs in the transaction that records the answer.
// Both are committed or neither. After a refusal that is stored, such as a 402, it runs only with
// server.KeepRows. If fn returns an error the run has failed. fn may run again after a conflict.
//
// It returns what [store.OnComplete] returns, as for a ctx of no run. It does
// not block.
func OnComplete(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if fn == nil {
		return store.OnComplete(ctx, nil)
	}
	return store.OnComplete(ctx, func(ctx context.Context) error { return fn(ctx, Tx(ctx)) })
}
