package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/server/pgkit"
)

// Statements of handlers are prepared by name where that can last, as pgx would do
// by itself: the exec mode that the pool has is one that a pooler can take.

// nameFirst does so for what is about to be sent with BEGIN. Batches take no option
// that says it. What has an option has another text than it seems, and what has no
// arguments may be several statements.
func nameFirst(ctx context.Context, conn *pgx.Conn, queries []*pgx.QueuedQuery) {
	for _, q := range queries {
		if len(q.Arguments) == 0 {
			continue
		}
		if _, rewritten := q.Arguments[0].(pgx.QueryRewriter); !rewritten {
			pgkit.NameOther(ctx, conn, q.SQL)
		}
	}
}

// named returns where a statement goes that does not begin the transaction, and its
// arguments. An option among them counts more than ours, which comes first.
func (t *handlerTx) named(ctx context.Context, args []any) (pgx.Tx, []any) {
	tx := t.current(ctx)
	if conn := tx.Conn(); len(args) > 0 && conn != nil && pgkit.MayName(conn) {
		args = slices.Insert(slices.Clone(args), 0, any(pgx.QueryExecModeCacheStatement))
	}
	return tx, args
}
