package pgjournal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

// readerIndex is the index that only a [Reader] needs. Each new saga pays for it, so no migration makes it.
var readerIndex = component.Index{Name: "saga_created_at", Columns: "(created_at, id)"}

// AddReaderIndexes makes the index that a [Reader] needs for lists with finished sagas: saga_created_at on (created_at,
// id). Each new saga then writes one more entry of an index; no later write does. An empty schema means that the
// search_path finds the tables.
//
// It builds the index concurrently, so sagas go on. It opens a connection of its own, which must not go through a
// pooler in transaction mode, and holds one of the pool meanwhile. It takes as long as the server needs to read the
// table twice, and to wait for all older transactions. If ctx ends before that, an invalid index stays, which the next
// call drops and makes anew. A valid index is left as it is. Several processes may call it at once: one makes the
// index, and the others wait for it. To take the index away, drop it.
//
// The pool's role must own the tables. The errors wrap [ErrConfig] for a schema that cannot be, or for an index of that
// name with other columns, and [ErrSchemaMissing].
func AddReaderIndexes(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	q, err := readerQueriesBySchema.For(schema, false)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if pool == nil {
		return fmt.Errorf("%w: the pool is nil", ErrConfig)
	}
	table := "saga"
	if schema != "" {
		table = pgx.Identifier{schema, table}.Sanitize()
	}
	return wrap("reader indexes", component.IndexBuild{
		Pool: pool, Table: table, Indexes: []component.Index{readerIndex},
		Look: q.ReaderIndex, Valid: func(row pgx.Row) (bool, error) {
			var have rights
			err := row.Scan(&have.index, &have.failures)
			return have.index, err
		},
		Missing: ErrSchemaMissing, Wrong: ErrConfig,
	}.Run(ctx))
}
