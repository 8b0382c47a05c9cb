package pgkit

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// inFailedTransaction is the SQLSTATE of every statement behind the one that failed.
const inFailedTransaction = "25P02"

// noteFailure remembers err if it is the first since the transaction on conn was sound.
// conn still has the status from before the statement. A failed transaction has status
// E until it is rolled back to a savepoint.
func noteFailure(conn *pgconn.PgConn, err *pgconn.PgError) {
	if conn.TxStatus() != 'E' && err.Code != inFailedTransaction {
		sessionOf(conn).failed.Store(err)
	}
}

// TxFailure returns the error that the transaction on conn failed with: the first one
// since the transaction was sound, on whatever path the statement took. It returns nil
// if the server has refused nothing since [WatchConflicts]. It means nothing while the
// transaction is sound: a savepoint may have undone the failure.
func TxFailure(conn *pgx.Conn) *pgconn.PgError { return sessionOf(conn.PgConn()).failed.Load() }

// IsUnavailable reports whether the server is the reason of err, and not the statement.
// Another attempt can succeed. Such errors have the SQLSTATE classes 08, 25, 40, 53, 55,
// 57, 58 and XX. A prepared statement's name that the session lost counts as well.
func IsUnavailable(err *pgconn.PgError) bool {
	if misnamed(err) || fatal(err) {
		return true
	}
	if len(err.Code) < 2 {
		return true // no answer of a server that follows the protocol
	}
	switch err.Code[:2] {
	case "08", "25", "40", "53", "55", "57", "58", "XX":
		return true
	default:
		return false
	}
}
