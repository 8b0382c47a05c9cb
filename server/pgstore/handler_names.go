package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server/pgkit"
)

// named returns where a statement goes that does not begin the transaction, and its
// arguments. It is prepared by name where that can last, as pgx would do by itself:
// the exec mode that the pool has is one that a pooler can take. What travels with
// BEGIN is named before, as batches take no option that says it. An option among the
// arguments counts more than ours, which comes first.
func (t *handlerTx) named(ctx context.Context, args []any) (pgx.Tx, []any) {
	tx := t.current(ctx)
	if conn := tx.Conn(); len(args) > 0 && conn != nil && pgkit.MayName(conn) {
		args = append([]any{pgx.QueryExecModeCacheStatement}, args...)
	}
	return tx, args
}
