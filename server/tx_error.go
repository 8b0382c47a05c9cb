package server

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTxLost means that the store lost the transaction before COMMIT was sent,
// for example with its connection. No row is committed. The guard runs the handler
// once more, in a new transaction.
var ErrTxLost = errors.New("server: transaction lost")

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
	// Commit means that the store refused the COMMIT: a deferred constraint is
	// checked there. Otherwise it refused a statement before.
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

// violation reports whether the data, and not the code, is what was refused:
// class 23 of the SQL standard, integrity constraint violation.
func (e *TxError) violation() bool { return strings.HasPrefix(e.SQLState, "23") }

// advice tells a person what to change in the handler.
func (e *TxError) advice() string {
	switch {
	case e.Ended:
		return "leave COMMIT and ROLLBACK to the guard, and look for rows without an answer"
	case e.Commit && e.violation():
		return "set Route.OnCommitError to answer a deferred constraint, or make it immediate"
	case e.violation():
		return "answer with a 4xx, or use a savepoint or ON CONFLICT if the violation is expected"
	case e.SQLState == "":
		return "correct the handler: see the reason"
	default:
		return "return the statement's error from the handler, and correct the statement or its values"
	}
}
