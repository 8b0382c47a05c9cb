package pgjournal

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

// distributedTables are the tables that Citus spreads. A saga is on one node with all that belongs
// to it. Every node has all leases, so that it can decide a claim by itself.
var distributedTables = []component.DistributedTable{
	{Name: "saga", Key: "id"},
	{Name: "saga_result", Key: "saga", With: "saga"},
	{Name: "saga_local", Key: "saga", With: "saga"},
	{Name: "saga_signal", Key: "saga", With: "saga"},
	{Name: "saga_audit", Key: "saga", With: "saga"},
	{Name: "saga_engine"},
}

// Distribute makes Citus distribute the tables in a schema over the nodes of its cluster, by the ID
// of the saga. An empty schema means the one that the search_path finds. Run it after [Migrate], on
// the coordinator, as the owner of the tables, and before any process uses them: distributed
// tables need other statements, so a running process must be started again. [Open] finds out which
// statements it needs. Distribute moves the rows that are there, and nobody can write meanwhile. A
// second call does nothing, or distributes a table that a later migration has added: run it after each. Calls may run at once in several processes.
//
// The number of shards is the setting citus.shard_count of the pool's connections. Citus moves whole
// shards between nodes: choose several times as many as there will ever be nodes.
//
// [Start] in a transaction of yours writes one more row, on the node of the saga. If the
// transaction writes on other nodes too, Citus commits it in two phases.
//
// Distribute returns an error wrapping [ErrNoCitus] if the database has no extension citus,
// [ErrSchemaMissing] if the tables are missing, or [ErrConfig] for a name that no schema of
// [Config] can have or without a pool.
func Distribute(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return journalTables.Distribute(ctx, pool, schema)
}
