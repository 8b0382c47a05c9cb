package store

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/server/internal/runctx"
)

// A TxStore is a [Store] that can settle a run inside the transaction with the
// run's effects. [Transactional] routes and completion hooks need it.
type TxStore interface {
	Store
	// Begin opens a transaction. It holds at most one connection until it ends.
	// A store may take the connection with the first statement, and report only
	// then that none is free.
	Begin(ctx context.Context) (Tx, error)
}

// A Tx is a transaction of a [TxStore]. It belongs to one run, and ends with Settle, Commit or Rollback. It is not safe
// for concurrent use.
type Tx interface {
	// NewContext returns ctx carrying the transaction for the store's own
	// accessor, such as pgstore.Tx. It is [NewTxContext] with what the accessor returns.
	NewContext(ctx context.Context) context.Context
	// Cancel is [Store.Cancel] as part of this transaction.
	Cancel(ctx context.Context, req CancelRequest) (Record, bool, error)
	// Settle settles the run as the transaction's last statement, and commits.
	// Each error means that the transaction was rolled back, with one exception:
	//   - [ErrLeaseLost]: the owner does not own the key any more.
	//   - [ErrConflict], [ErrTxLost], [ErrTxAbandoned], a [*TxError]: as Err says. A COMMIT that the
	//     store refused is a TxError with Commit set.
	//   - [ErrFateUnknown]: the COMMIT was sent, and its answer was lost.
	Settle(ctx context.Context, o Owner, s Settlement) error
	// Commit commits the transaction of a run without a key, which has no record to settle. Each error means that the
	// transaction was rolled back, with the exception of ErrFateUnknown. The errors are those of Settle, without
	// ErrLeaseLost.
	Commit(ctx context.Context) error
	// Rollback ends the transaction without effect. After the end it does
	// nothing.
	Rollback(ctx context.Context) error
	// Err returns nil while the transaction can be committed, as far as the store
	// knows. Otherwise it returns the first failure that prevents the commit,
	// whether or not the handler looked at it. A failure inside a savepoint that
	// was rolled back prevents nothing. The errors are:
	//   - [ErrConflict]: a serialization failure or a deadlock, also in a
	//     savepoint. Running the transaction again may succeed.
	//   - [ErrTxLost]: the transaction is lost, and no COMMIT was sent.
	//   - [ErrTxAbandoned]: the ctx of a statement ended before its answer came.
	//   - a [*TxError]: the store refused a statement because of the statement.
	//   - any other error: the store could not do its part. It lacks a resource,
	//     or an operator or a timeout stopped the statement.
	//
	// After the end of the transaction Err returns the same as before the end.
	Err() error
}

// NewTxContext returns ctx carrying handle, which a store's accessor finds by [TxFromContext]. A ctx has one handle,
// whatever store it is of. A guard takes it out of the ctx of a further run that begins inside of this one:
// such a run is settled by itself, and must not write into the transaction of another.
func NewTxContext(ctx context.Context, handle any) context.Context {
	return runctx.NewTxContext(ctx, handle)
}

// TxFromContext returns the handle that [NewTxContext] put into ctx; nil if ctx belongs to no transaction.
func TxFromContext(ctx context.Context) any { return runctx.TxFrom(ctx) }

// A TxError means that the store refused a statement of a transaction, or its
// COMMIT. The reason is the statement or its values, such as a violated constraint
// or an unknown column. No row is committed, unless Ended is set. The same
// statements would be refused again.
//
// A guard answers a 2xx of such a run with 500 transaction-failed. [Effect] has
// the rules.
type TxError struct {
	// SQLState is the five characters of the SQL standard (ISO 9075), such as
	// 23505. It is empty if no server refused the statement; Reason says more.
	SQLState string
	// Constraint is the name of the violated constraint. It may be empty.
	Constraint string
	// Reason is the store's own explanation, for a person. It holds no value of a
	// row or an argument. It may be empty.
	Reason string
	// Commit means that the store refused the COMMIT, or a statement that was sent
	// together with it: the handler had returned. A deferred constraint is checked in
	// the COMMIT. Otherwise the store refused a statement before.
	Commit bool
	// Ended means that the handler ended the transaction by a statement of its
	// own. Its rows may be committed.
	Ended bool
	// Err is the store's own error. Its text may hold values of rows.
	Err error
}

// Error implements error. The text leaves out the text of Err.
func (e *TxError) Error() string {
	text := "server: transaction failed"
	if e.Commit {
		text = "server: COMMIT refused"
	}
	if e.SQLState != "" {
		text += ": SQLSTATE " + e.SQLState
	}
	if e.Constraint != "" {
		text += fmt.Sprintf(": constraint %q", e.Constraint)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unwrap returns Err.
func (e *TxError) Unwrap() error { return e.Err }
