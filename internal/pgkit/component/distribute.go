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
	if t.Key == "" {
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
