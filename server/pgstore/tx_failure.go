package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Err implements [store.Tx]. The connection itself remembers the failure, even if the handler did
// not look at it, or sent the statement past [Tx], through database/sql or Conn.
func (t *tx) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return t.verdict
	}
	return t.diagnose()
}

// diagnose is Err while the transaction is open. t.mu is held.
func (t *tx) diagnose() error {
	if t.stage == stageBegun && t.conflict() && !t.left.Load() {
		return store.ErrConflict // also of a savepoint: nothing is lost with another turn
	}
	return t.obstacle()
}

// committable returns the error that a COMMIT would hide. Postgres answers a COMMIT in a failed
// transaction with a ROLLBACK, and no error.
func (t *tx) committable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrTxEnded
	}
	return t.obstacle()
}

// obstacle is committable while the transaction is open. t.mu is held.
func (t *tx) obstacle() error {
	switch t.stage {
	case stageIdle:
		return nil
	case stageBeginning:
		return busyError()
	case stageFailed:
		return t.neverBegan()
	default:
	}
	switch conn, left := t.conn.Conn().PgConn(), t.left.Load(); {
	case conn.IsClosed() && !left:
		return t.connectionLost()
	case conn.IsBusy() && !left:
		return busyError()
	case conn.TxStatus() == 'T' && !left:
		return nil
	case conn.TxStatus() == 'I', left: // a part may be committed, whatever happened afterwards
		return &store.TxError{
			Reason: "the handler ended the transaction itself", Ended: true,
			Err: fmt.Errorf("%w, but the handler did", ErrTxOwned),
		}
	case t.conflict():
		return store.ErrConflict
	}
	if failure := pgkit.TxFailure(t.conn.Conn()); failure != nil {
		return refusedStatement(failure)
	}
	return &store.TxError{Reason: "a statement failed", Err: ErrTxFailed}
}

// connectionLost is the failure of a transaction whose connection is closed. A
// transaction that had failed before has that failure.
func (t *tx) connectionLost() error {
	if last := pgkit.TxFailure(t.conn.Conn()); last != nil && t.conn.Conn().PgConn().TxStatus() == 'E' {
		return refusedStatement(last) // it had failed before
	}
	if t.unsendable != nil {
		return unsendable(t.unsendable)
	}
	return lost(pgkit.IsAbandoned(t.conn.Conn()))
}

// lost is the failure of a transaction whose connection is closed. pgx itself closes it if the ctx of a statement ends
// before the answer. Another turn would end in the same way.
func lost(abandoned bool) error {
	if abandoned {
		return fmt.Errorf("%w: %w: a statement was still running when its ctx ended: raise the HandlerTimeout, or what the handler allowed it",
			ErrTxFailed, store.ErrTxAbandoned)
	}
	return fmt.Errorf("%w: the connection broke", store.ErrTxLost)
}

// neverBegan is the failure of a transaction whose first statement did not get through.
func (t *tx) neverBegan() error {
	var refused *pgconn.PgError
	switch {
	case t.verdict != nil: // a conflict
		return t.verdict
	case errors.Is(t.cause, ErrTxEnded), t.unheld && !errors.Is(t.cause, context.Canceled):
		return t.failure()
	case t.abandoned:
		return lost(true)
	case errors.As(t.cause, &refused) && !t.broke:
		return refusedStatement(refused)
	case errors.Is(t.cause, context.Canceled), errors.Is(t.cause, context.DeadlineExceeded): // and nothing was sent
		return lost(true)
	case !t.broke, isUnsendable(t.cause):
		return unsendable(t.failure())
	default:
		return lost(false)
	}
}

// unsendable is the failure of a transaction with a statement that pgx could not send.
// The text leaves out pgx's, which holds the argument.
func unsendable(err error) error {
	return &store.TxError{Reason: "pgx could not send a statement", Err: err}
}

// watchedResults tell the transaction why pgx closed the connection under a batch.
type watchedResults struct {
	pgx.BatchResults

	root *tx
}

func (r watchedResults) Exec() (pgconn.CommandTag, error) {
	tag, err := r.BatchResults.Exec()
	return tag, r.root.see(err)
}

func (r watchedResults) Query() (pgx.Rows, error) {
	rows, err := r.BatchResults.Query()
	return rows, r.root.see(err)
}

func (r watchedResults) QueryRow() pgx.Row {
	return watchedRow{r.BatchResults.QueryRow(), r.root}
}

func (r watchedResults) Close() error { return r.root.see(r.BatchResults.Close()) }

type watchedRow struct {
	pgx.Row

	root *tx
}

func (r watchedRow) Scan(dest ...any) error { return r.root.see(r.Row.Scan(dest...)) }

// see remembers err if it is why the transaction has failed, and returns it.
func (t *tx) see(err error) error {
	if err != nil && isUnsendable(err) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.unsendable = err
	}
	return err
}

// refusedStatement is the failure of a transaction in which the server refused a
// statement. The text leaves out the server's message, which may hold values.
func refusedStatement(refused *pgconn.PgError) error {
	cause := fmt.Errorf("%w: %w", ErrTxFailed, refused)
	if pgkit.IsUnavailable(refused) {
		return &unavailableError{code: refused.Code, err: cause}
	}
	return &store.TxError{SQLState: refused.Code, Constraint: refused.ConstraintName, Err: cause}
}

// commitRefused gives the refusal of a COMMIT the server's name. Other errors stay as they are,
// also errors whose meaning for the COMMIT is unknown.
func commitRefused(err error) error {
	var refused *pgconn.PgError
	if pgkit.Classify(err) != pgkit.FailureRefused || !errors.As(err, &refused) || pgkit.IsUnavailable(refused) {
		return err
	}
	return &store.TxError{
		SQLState: refused.Code, Constraint: refused.ConstraintName, Commit: true, Err: fmt.Errorf("%w: %w", ErrTxFailed, err),
	}
}

func busyError() error {
	return &store.TxError{Reason: "the handler left rows or a statement open", Err: ErrTxBusy}
}

// An unavailableError is the failure of a statement that did not cause the failure.
type unavailableError struct {
	code string
	err  error
}

func (e *unavailableError) Error() string { return ErrTxFailed.Error() + ": SQLSTATE " + e.code }

func (e *unavailableError) Unwrap() error { return e.err }
