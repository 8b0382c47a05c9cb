package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// readerIndexes are those that only a [Reader] needs. Every claim pays for them, so no migration makes them.
var readerIndexes = []pgkit.Index{
	{Name: "idempotency_created_at", Columns: "(created_at, key)"},
	{Name: "idempotency_children", Columns: "(parent) where parent is not null"},
}

// AddReaderIndexes makes the two indexes that a [Reader] needs for Browse, for Estimate, and for lists of children:
// idempotency_created_at on (created_at, key), and idempotency_children on (parent). Each claim then writes an entry of
// each: DESIGN.md has the cost. An empty schema means that the search_path finds the tables.
//
// It builds them concurrently: requests go on. It cannot be in a transaction, and its connection must not go through a
// pooler in transaction mode. It takes as long as the server needs to read the table twice, and to wait for all
// older transactions. If ctx ends before that, an invalid index stays, which the next call drops and makes anew. An
// index that is there is left as it is. Several processes may call it at once: one makes the indexes, and the others
// wait for them. To take the indexes away, drop them.
//
// The pool's role must own the tables. One connection of the pool is held meanwhile. AddReaderIndexes
// returns errors wrapping [ErrConfig] for a schema that cannot be, or for an index of such a name with
// other columns, and [ErrSchemaMissing].
func AddReaderIndexes(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	q, err := readerQueriesBySchema.For(schema)
	if err != nil {
		return fmt.Errorf("%w: schema: %w", ErrConfig, err)
	}
	if pool == nil {
		return fmt.Errorf("%w: pool is nil", ErrConfig)
	}
	return wrap("reader indexes", pgkit.IndexBuild{
		Pool: pool, Table: table{schema: schema, name: "idempotency"}.String(), Indexes: readerIndexes,
		Look: q.indexes, Valid: func(row pgx.Row) (bool, error) {
			var times, children bool
			err := row.Scan(&times, &children)
			return times && children, err
		},
		Missing: ErrSchemaMissing, Wrong: ErrConfig,
	}.Run(ctx))
}
