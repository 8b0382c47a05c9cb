package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/pgstore"
)

// distributedTables are the tables that take part in transactions of the work. Relays use the other tables by
// themselves.
var distributedTables = []component.DistributedTable{{Name: "outbox", Local: true}}

// Distribute makes Citus commit a message together with rows on other nodes: both, or none of them. The messages stay
// on the coordinator. Without it Citus commits the other node first, and a crash of the coordinator between the commits
// loses the message. [Migrate] does it by itself where it finds a Citus. Call Distribute if another tool made the
// tables, or if the extension came after them. Run it on the coordinator, as the owner of the tables. It moves the
// messages that are there, and nobody can write meanwhile. A second call does nothing.
//
// Writers and relays connect to the coordinator: the lock that orders the messages of an aggregate is there.
//
// Distribute returns an error wrapping [pgstore.ErrNoCitus] if the database has no extension citus,
// [pgstore.ErrSchemaMissing] if the tables are missing, and [ErrConfig] for a name that no schema can have or without a
// pool.
func Distribute(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if pool == nil {
		return fmt.Errorf("%w: nil pool", ErrConfig)
	}
	err := component.Distribute(ctx, pool, schema, distributedTables)
	switch {
	case errors.Is(err, pgkit.ErrSchemaName):
		return fmt.Errorf("%w: %w", ErrConfig, err)
	case errors.Is(err, component.ErrNoCitus):
		return pgstore.ErrNoCitus
	case err != nil:
		return fmt.Errorf("outbox: distribute: %w", err)
	}
	return nil
}
