package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// named returns where a statement goes that does not begin the transaction, and its arguments. The
// statement is prepared by name where names can last, as pgx would do by itself: the pool's exec
// mode is a mode that works behind a pooler. A statement that travels with BEGIN is named before,
// because a batch takes no such option. An option among the arguments overrides ours, which comes
// first.
func (t *handlerTx) named(ctx context.Context, args []any) (pgx.Tx, []any) {
	tx := t.current(ctx)
	if conn := tx.Conn(); len(args) > 0 && conn != nil && pgkit.MayName(conn) {
		args = append([]any{pgx.QueryExecModeCacheStatement}, args...)
	}
	return tx, args
}
