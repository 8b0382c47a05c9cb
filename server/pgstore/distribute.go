package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// distributedTables are the tables that are distributed by their column key. Those that follow
// another are co-located with it: the rows of one key are on one node. The tables that only
// maintenance and migration use stay on the coordinator.
var distributedTables = []struct{ name, with string }{
	{"idempotency", ""},
	{"idempotency_answer", "idempotency"},
	{"idempotency_audit", "idempotency"},
	{"idempotency_attention", "idempotency"},
	{"idempotency_intent", ""},
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
	if pool == nil {
		return fmt.Errorf("%w: nil pool", ErrConfig)
	}
	if err := pgkit.CheckSchemaName(schema); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return wrap("distribute", pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		d := &distributing{tx: tx, schema: schema}
		if err := d.begin(ctx); err != nil {
			return err
		}
		for _, t := range distributedTables {
			if err := d.distribute(ctx, t.name, t.with); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
		return nil
	}))
}

// distributing is the transaction of [Distribute].
type distributing struct {
	tx     pgx.Tx
	schema string
}

// named is the table as SQL names it.
func (d *distributing) named(table string) string {
	if d.schema == "" {
		return table
	}
	return pgx.Identifier{d.schema, table}.Sanitize()
}

// begin waits for others that do the same. Citus moves the rows of several tables in one
// transaction only one shard after the other.
func (d *distributing) begin(ctx context.Context) error {
	const citus = "select exists (select from pg_extension where extname = 'citus')"
	var there bool
	if err := d.tx.QueryRow(ctx, citus).Scan(&there); err != nil {
		return err
	}
	if !there {
		return ErrNoCitus
	}
	if _, err := d.tx.Exec(ctx, "select pg_advisory_xact_lock(hashtext('fanonce distribute'))"); err != nil {
		return err
	}
	_, err := d.tx.Exec(ctx, "set local citus.multi_shard_modify_mode = 'sequential'")
	return err
}

func (d *distributing) distribute(ctx context.Context, table, with string) error {
	var done bool
	const distributed = "select exists (select from pg_catalog.pg_dist_partition where logicalrelid = $1::regclass)"
	if err := d.tx.QueryRow(ctx, distributed, d.named(table)).Scan(&done); err != nil {
		return missingTable(err)
	}
	if done {
		return nil
	}
	if err := d.keyFirst(ctx, table); err != nil {
		return err
	}
	group := "none"
	if with != "" {
		group = d.named(with)
	}
	_, err := d.tx.Exec(ctx, "select create_distributed_table($1::regclass, 'key', colocate_with => $2)", d.named(table), group)
	return err
}

// keyFirst gives the audit log a primary key with the key in it. A node sees its own rows only, and
// cannot keep other values unique.
func (d *distributing) keyFirst(ctx context.Context, table string) error {
	if table != "idempotency_audit" {
		return nil
	}
	_, err := d.tx.Exec(ctx, "alter table "+d.named(table)+" drop constraint idempotency_audit_pkey, add primary key (key, id)")
	return err
}

// missingTable names the cause where a table does not exist.
func missingTable(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "3F000") {
		return fmt.Errorf("%w: %w", ErrSchemaMissing, err)
	}
	return err
}

// checkDistributed finds a store whose statements do not suit the tables. They would fail, and a
// batch of a plain store would not be one transaction.
func (s *Store) checkDistributed(ctx context.Context) error {
	distributed, err := pgkit.Distributed(ctx, s.db.Pool, s.cfg.Schema, component.Tables[0])
	switch {
	case err != nil:
		return err
	case distributed && !s.query.distributed:
		return fmt.Errorf("%w: the tables are distributed, and Distributed is false: start again", ErrConfig)
	case !distributed && s.query.distributed:
		return fmt.Errorf("%w: Distributed is true, and the tables are not distributed", ErrConfig)
	}
	return s.findShards(ctx)
}

// findShards looks where the shards are, on which the flushes depend. A rebalance moves them.
func (s *Store) findShards(ctx context.Context) error {
	if !s.query.distributed {
		return nil
	}
	return s.placement.Load(ctx, s.db.Pool, s.cfg.Schema, component.Tables[0])
}

// isNull reports that a column that must not be null was.
func isNull(err error) bool {
	var pgErr *pgconn.PgError
	return !errors.Is(err, pgkit.ErrFateUnknown) && errors.As(err, &pgErr) && pgErr.Code == "23502" && ofWorker(pgErr)
}
