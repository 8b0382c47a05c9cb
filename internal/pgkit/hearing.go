package pgkit

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Hear has the server send the warning that a commit was not confirmed by a standby. Without it a
// session with client_min_messages = error gets no warning, and the warning is the only sign. An
// earlier user of the connection may have set that. The setting ends with the transaction.
const Hear = "select set_config('client_min_messages', 'warning', true)"

// hears reports whether a statement does the work of [Hear] by itself, or needs no warning: a
// commit that is not synchronous waits for no standby.
func hears(sql string) bool {
	return strings.Contains(sql, "set_config('client_min_messages', 'warning', true)") ||
		strings.Contains(sql, "set_config('synchronous_commit', 'off', true)")
}

// Commit commits the transaction that is open on conn, in one round trip, and hears whether
// a standby confirmed it. For a transaction that had failed before, Postgres answers COMMIT
// with ROLLBACK: the error then wraps [pgx.ErrTxCommitRollback].
func Commit(ctx context.Context, conn *pgx.Conn) error {
	if conn.PgConn().TxStatus() == 'E' {
		_, err := conn.Exec(ctx, "rollback")
		return &nothingChanged{errors.Join(pgx.ErrTxCommitRollback, err)}
	}
	results := conn.PgConn().Exec(ctx, "set local client_min_messages = warning; commit")
	var last pgconn.CommandTag
	for results.NextResult() {
		last, _ = results.ResultReader().Close() // Close returns the error
	}
	err := results.Close()
	if err == nil && last.String() != "COMMIT" {
		return &nothingChanged{pgx.ErrTxCommitRollback}
	}
	return err
}
