package pgkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Why an [OwnedTx] cannot be committed, or refuses a statement.
var (
	ErrTxOwned = errors.New("the transaction ends by itself: leave Commit and Rollback out, or use a savepoint")
	ErrTxEnded = errors.New("the transaction has ended")
	ErrTxBusy  = errors.New("the transaction still has open rows")
	// ErrTxFailed: a COMMIT would hide the statement that failed.
	ErrTxFailed = errors.New("a statement of the transaction failed, and the function went on")
)

// rollbackTimeout bounds a rollback whose caller's time may be up. A connection that does not answer within it is given
// up, and the server rolls back.
const rollbackTimeout = 5 * time.Second

// An OwnedTx is a READ COMMITTED transaction in which a user's function works, and which its owner ends. [BeginOwned]
// makes one. End it with Commit, or with Rollback, which does nothing after either. It is for one goroutine, except that
// goroutines which the function left running may still use [OwnedTx.View].
type OwnedTx struct {
	writer *Writer
	conn   *pgxpool.Conn
	tx     pgx.Tx

	mu    sync.Mutex
	ended bool
	left  bool // the function sent the end of the transaction as text
}

// BeginOwned takes a connection of w's pool and begins. Its error says that nothing was changed.
func BeginOwned(ctx context.Context, w *Writer) (*OwnedTx, error) {
	conn, err := w.acquire(ctx)
	if err != nil {
		return nil, err
	}
	WatchConflicts(conn.Conn())
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &OwnedTx{writer: w, conn: conn, tx: tx}, nil
}

// Tx is the transaction for its owner's statements.
func (t *OwnedTx) Tx() UserTx { return PgxTx{t.tx} }

// View is the transaction for the function. Its Commit and Rollback return [ErrTxOwned], and its Begin makes a
// savepoint. A statement that would end the transaction is not sent, and nothing is committed then. Once the
// transaction has ended every method returns [ErrTxEnded], and Conn returns nil.
func (t *OwnedTx) View() pgx.Tx { return &txView{root: t, tx: t.tx} }

// Check returns the reason why the transaction cannot be committed, if there is one. A function may not have looked at
// the error of a statement: for a transaction that has failed Postgres answers COMMIT with ROLLBACK, and no error.
func (t *OwnedTx) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	conn := t.conn.Conn()
	switch status := conn.PgConn(); {
	case t.ended:
		return ErrTxEnded
	case status.IsClosed():
		return fmt.Errorf("the connection of the transaction: %w", pgconn.ErrConnClosed)
	case status.IsBusy():
		return ErrTxBusy
	case t.left:
		return ErrTxOwned
	case status.TxStatus() == 'I':
		return fmt.Errorf("%w; the function ended it past the view", ErrTxOwned)
	case status.TxStatus() == 'E':
		if failure := TxFailure(conn); failure != nil {
			return fmt.Errorf("%w: %w", ErrTxFailed, failure)
		}
		return ErrTxFailed
	}
	return nil
}

// Left reports whether the function ended the transaction past the view, so that its rows may be committed.
func (t *OwnedTx) Left() bool {
	conn := t.conn.Conn().PgConn()
	return !conn.IsClosed() && !conn.IsBusy() && conn.TxStatus() == 'I'
}

// Commit commits. Its error wraps [ErrFateUnknown], or says that nothing was committed. If ctx ends before COMMIT is
// sent the transaction is rolled back.
func (t *OwnedTx) Commit(ctx context.Context) error {
	if err := t.Check(); err != nil {
		t.Rollback(ctx)
		return err
	}
	if !t.end() {
		return ErrTxEnded
	}
	_, err := Finish(ctx, t.writer, t.conn, func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
		return struct{}{}, Commit(ctx, conn)
	})
	return err
}

// Rollback rolls back, also where ctx has ended. If the server does not answer the connection is given up.
func (t *OwnedTx) Rollback(ctx context.Context) {
	if !t.end() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	// The writer rolls back what is left open. A connection that is busy or closed is given up.
	_, _ = Finish(ctx, t.writer, t.conn, func(context.Context, *pgx.Conn) (struct{}, error) { return struct{}{}, nil })
}

// end reports whether the transaction had not ended before.
func (t *OwnedTx) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.ended
	t.ended = true
	return first
}

// refuseEnd notes text that would end the transaction.
func (t *OwnedTx) refuseEnd(sql string) error {
	if !EndsTransaction(sql) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = true
	return ErrTxOwned
}

// A txView is an [OwnedTx], or a savepoint in it, as the function sees it.
type txView struct {
	root      *OwnedTx
	tx        pgx.Tx
	savepoint bool
}

// current is where a statement goes, whose text may be empty.
func (v *txView) current(sql string) pgx.Tx {
	v.root.mu.Lock()
	ended := v.root.ended
	v.root.mu.Unlock()
	if ended {
		return RefusedTx{ErrTxEnded} // the connection may be another one's by now
	}
	if err := v.root.refuseEnd(sql); err != nil {
		return RefusedTx{err}
	}
	return v.tx
}

// Begin makes a savepoint.
func (v *txView) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := v.current("").Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &txView{root: v.root, tx: tx, savepoint: true}, nil
}

func (v *txView) Commit(ctx context.Context) error   { return v.ending().Commit(ctx) }
func (v *txView) Rollback(ctx context.Context) error { return v.ending().Rollback(ctx) }

func (v *txView) ending() pgx.Tx {
	if !v.savepoint {
		return RefusedTx{ErrTxOwned}
	}
	return v.current("")
}

func (v *txView) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	return v.current("").CopyFrom(ctx, table, columns, rows)
}

func (v *txView) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		if err := v.root.refuseEnd(q.SQL); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
	}
	return v.current("").SendBatch(ctx, b)
}

func (v *txView) LargeObjects() pgx.LargeObjects { return v.current("").LargeObjects() }

func (v *txView) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return v.current(sql).Prepare(ctx, name, sql)
}

func (v *txView) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return v.current(sql).Exec(ctx, sql, args...)
}

func (v *txView) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return v.current(sql).Query(ctx, sql, args...)
}

func (v *txView) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return v.current(sql).QueryRow(ctx, sql, args...)
}

func (v *txView) Conn() *pgx.Conn { return v.current("").Conn() }
