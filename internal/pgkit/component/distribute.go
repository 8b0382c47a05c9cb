package component

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// ErrNoCitus: the database has no extension citus.
var ErrNoCitus = errors.New("the database has no extension citus")

// A DistributedTable says how Citus spreads a table over its nodes.
type DistributedTable struct {
	Name string
	// Key is the column that a row's node is found by. Empty: every node has the whole table.
	Key string
	// Local keeps the table on the coordinator, as a table that Citus knows. Key is empty then. Citus commits a
	// transaction in two phases if it writes this table and rows on another node. With a table that it does not know,
	// it commits the other node first, and a crash between the commits loses the rows of the table.
	Local bool
	// With is the table whose rows of the same key are on the same node. Empty: none.
	With string
	// PrimaryKey has the columns of the primary key once the table is distributed, with Key among them: a
	// node sees its own rows only, and cannot keep other values unique. Empty: the key stays as it is.
	PrimaryKey string
}

// Distribute spreads tables over the nodes of Citus, in one transaction. It does nothing to a table
// that is distributed already, and calls may run at once. It returns an error wrapping [pgkit.ErrSchemaName], [ErrNoCitus]
// or [ErrSchemaMissing].
func Distribute(ctx context.Context, pool *pgxpool.Pool, schema string, tables []DistributedTable) error {
	if err := pgkit.CheckSchemaName(schema); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var citus bool
		err := tx.QueryRow(ctx, "select exists (select from pg_extension where extname = 'citus')").Scan(&citus)
		if err == nil && !citus {
			err = ErrNoCitus
		}
		if err != nil {
			return err
		}
		// Others that do the same wait. Citus moves the rows of several tables in one transaction
		// only one shard after the other.
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtext('fanonce distribute')), set_config('citus.multi_shard_modify_mode', 'sequential', true)"); err != nil {
			return err
		}
		for _, t := range tables {
			if err := t.distribute(ctx, tx, schema); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		return nil
	})
}

func (t DistributedTable) distribute(ctx context.Context, tx pgx.Tx, schema string) error {
	var done bool
	const distributed = "select exists (select from pg_catalog.pg_dist_partition where logicalrelid = $1::regclass)"
	err := tx.QueryRow(ctx, distributed, pgkit.QualifyTable(schema, t.Name)).Scan(&done)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "42P01" || refused.Code == "3F000") {
		return fmt.Errorf("%w: %w", ErrSchemaMissing, err)
	}
	if err != nil || done {
		return err
	}
	switch {
	case t.Local:
		return t.addLocal(ctx, tx, schema)
	case t.Key == "":
		_, err = tx.Exec(ctx, "select create_reference_table($1::regclass)", pgkit.QualifyTable(schema, t.Name))
		return err
	}
	if t.PrimaryKey != "" {
		change := " drop constraint " + t.Name + "_pkey, add primary key (" + t.PrimaryKey + ")"
		if _, err := tx.Exec(ctx, "alter table "+pgkit.QualifyTable(schema, t.Name)+change); err != nil {
			return err
		}
	}
	with := "none"
	if t.With != "" {
		with = pgkit.QualifyTable(schema, t.With)
	}
	_, err = tx.Exec(ctx, "select create_distributed_table($1::regclass, $2, colocate_with => $3)", pgkit.QualifyTable(schema, t.Name), t.Key, with)
	return err
}

// addLocal makes Citus know the table. Citus moves the rows into a table with new sequences behind the columns that
// are generated as identity: they would begin at 1 again, beside the rows that are there.
func (t DistributedTable) addLocal(ctx context.Context, tx pgx.Tx, schema string) error {
	table := pgkit.QualifyTable(schema, t.Name)
	if _, err := tx.Exec(ctx, "lock table "+table+" in access exclusive mode"); err != nil { // nobody takes a value meanwhile
		return err
	}
	const identities = `select attname::text, pg_sequence_last_value(pg_get_serial_sequence($1, attname)::regclass)
		from pg_attribute where attrelid = $1::regclass and attidentity <> '' and not attisdropped`
	rows, err := tx.Query(ctx, identities, table)
	if err != nil {
		return err
	}
	type identity struct {
		Column string
		Last   *int64 // nil: no value was taken
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[identity])
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "select citus_add_local_table_to_metadata($1::regclass)", table); err != nil {
		return err
	}
	for _, i := range all {
		if i.Last == nil {
			continue
		}
		if _, err := tx.Exec(ctx, "select setval(pg_get_serial_sequence($1, $2)::regclass, $3)", table, i.Column, *i.Last); err != nil {
			return err
		}
	}
	return nil
}
