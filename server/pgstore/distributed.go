package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
)

// distributedTables are the tables that are distributed by their column key. Those that follow
// another are co-located with it: the rows of one key are on one node. The tables that only
// maintenance and migration use stay on the coordinator.
var distributedTables = []component.DistributedTable{
	{Name: "idempotency", Key: "key"},
	{Name: "idempotency_answer", Key: "key", With: "idempotency"},
	{Name: "idempotency_audit", Key: "key", With: "idempotency", PrimaryKey: "key, id"},
	{Name: "idempotency_attention", Key: "key", With: "idempotency"},
	{Name: "idempotency_intent", Key: "key"},
}

// Distribute makes Citus distribute the tables in a schema over the nodes of its cluster, by key.
// An empty schema means the one that the search_path finds. Run it after [Migrate], on the
// coordinator, as the owner of the tables. No process may use the tables meanwhile: distributed
// tables need other statements. [Open] finds out which statements it needs. Rows that are there are moved, and nobody can write meanwhile. Distribute can be
// called again, and from several processes: it does nothing to a table that is distributed.
//
// The number of shards is the setting citus.shard_count of the pool's connections. It cannot be
// changed cheaply later, and Citus moves shards and not rows: choose several times as many as there
// will ever be nodes.
//
// A Transactional handler commits on one node only if its business tables are co-located with the
// keys, and the rows of a request have the request's key. Give them a column for
// [store.Record].ID, distribute them by it, and Citus keeps both on one node:
//
//	select create_distributed_table('orders', 'idempotency_id', colocate_with => 'idempotency')
//
// Business tables that are distributed by another column work as well, at the price of a
// two-phase commit for each run.
//
// Distribute returns an error wrapping [ErrNoCitus] if the extension citus is missing,
// [ErrSchemaMissing] where the tables are missing, and [ErrConfig] for a name that cannot be.
func Distribute(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return storeTables.Distribute(ctx, pool, schema)
}

// A sweep of distributed tables reads keys, and changes the records by key: the servers lock rows
// only by key, and pass over none. A locked record makes the statement fail after a moment. Then
// the batch is halved until that record is alone, as in [Store.Renew].

// sweepByKey is sweep.sql for distributed tables.
func (s *Store) sweepByKey(ctx context.Context, from time.Time, limit int) (batch, error) {
	type due struct {
		key pgtype.UUID
		at  pgtype.Timestamptz
	}
	st := s.query().SweepKeys.Bind(pgx.NamedArgs{"after": after(from), "limit": int64(limit)})
	all, err := pgkit.All(ctx, s.db.Pool, st, func(row pgx.CollectableRow) (d due, err error) {
		return d, row.Scan(&d.key, &d.at)
	})
	if err != nil || len(all) == 0 {
		return batch{}, err
	}
	keys := make([]pgtype.UUID, len(all))
	for i, d := range all {
		keys[i] = d.key
	}
	n, err := s.changeByKey(ctx, s.query().Sweep, keys)
	return batch{count: n, last: all[len(all)-1].at, full: len(all) == limit}, err
}

// dropAnswersByKey is drop_answers.sql for distributed tables.
func (s *Store) dropAnswersByKey(ctx context.Context, look pgkit.Statement, limit int) (w seen, err error) {
	type window struct {
		seen

		due []pgtype.UUID
	}
	found, err := pgkit.One(ctx, s.db.Pool, look, func(row pgx.CollectableRow) (w window, err error) {
		return w, row.Scan(&w.end, &w.count, &w.due, &w.waiting, &w.needy)
	})
	if err != nil || len(found.due) == 0 {
		return found.seen, err
	}
	n, err := s.changeByKey(ctx, s.query().DropAnswers, found.due[:min(limit, len(found.due))])
	found.dropped = int64(n)
	return found.seen, err
}

// changeByKey returns how many records the statement changed. It passes over locked records.
func (s *Store) changeByKey(ctx context.Context, query pgkit.Query, keys []pgtype.UUID) (int, error) {
	st := query.Bind(pgx.NamedArgs{"keys": keys, "lock_timeout": s.db.Briefly})
	n, err := pgkit.Exec(ctx, s.db.Writer, st)
	switch {
	case err == nil:
		return int(n), nil
	case pgkit.Classify(err) != pgkit.FailureLockTimeout:
		return 0, err
	case len(keys) == 1:
		return 0, nil
	}
	half := len(keys) / 2
	first, err := s.changeByKey(ctx, query, keys[:half])
	if err != nil {
		return first, err
	}
	second, err := s.changeByKey(ctx, query, keys[half:])
	return first + second, err
}
