package component

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A Component is a package that keeps tables of its own, as stores and journals do. Its methods are
// safe for concurrent use.
type Component struct {
	Package    string // what its errors begin with
	ErrConfig  error  // its error for a configuration that cannot be
	Migrations Migrations
	Tables     []string           // that a role must be able to write
	Roles      string             // the statements of [Roles.SQL]
	Spread     []DistributedTable // by [Component.Distribute]
}

// Migrate brings the tables in a schema to the latest version, see [Migrations.Up]. Its error wraps
// the component's ErrConfig for a name that no schema can have.
func (c *Component) Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return c.wrap("migrate", c.Migrations.Up(ctx, pool, schema))
}

// Distribute spreads the component's tables over the nodes of Citus, see [Distribute]. Its error wraps the component's
// ErrConfig for a name that no schema can have, and without a pool.
func (c *Component) Distribute(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if pool == nil {
		return fmt.Errorf("%w: the pool is nil", c.ErrConfig)
	}
	return c.wrap("distribute", Distribute(ctx, pool, schema, c.Spread))
}

// Grant runs the component's statements for these roles, see [Roles.Grant]. Its error wraps
// the component's ErrConfig for a name that no role or schema can have.
func (c *Component) Grant(ctx context.Context, pool *pgxpool.Pool, r Roles) error {
	return c.wrap("grant", r.Grant(ctx, pool, c.Roles))
}

// RolesSQL returns the statements that Grant runs.
func (c *Component) RolesSQL(r Roles) (string, error) {
	text, err := r.SQL(c.Roles)
	return text, c.wrap("roles", err)
}

// IsDistributed reports whether the component's tables are distributed, see [pgkit.Distributed].
func (c *Component) IsDistributed(ctx context.Context, pool *pgxpool.Pool, schema string) (bool, error) {
	return pgkit.Distributed(ctx, pool, schema, c.Tables[0])
}

// Find returns the schema that the component's tables are in, and whether they are distributed. So statements can
// name the schema, and do not depend on the search_path of a connection. If the argument schema is empty the
// search_path finds the tables once. The result is still empty if they are missing, or in a schema whose name
// [pgkit.CheckSchemaName] refuses.
func (c *Component) Find(ctx context.Context, pool *pgxpool.Pool, schema string) (found string, distributed bool, err error) {
	if schema == "" {
		if schema, err = c.SchemaOf(ctx, pool); err != nil {
			return "", false, err
		}
		if pgkit.CheckSchemaName(schema) != nil {
			schema = ""
		}
	}
	distributed, err = c.IsDistributed(ctx, pool, schema)
	return schema, distributed, err
}

// SchemaOf returns the schema in which the search_path of db finds the component's tables; "" if it finds none.
func (c *Component) SchemaOf(ctx context.Context, db pgkit.Queryer) (schema string, err error) {
	const schemaOf = `select coalesce((select n.nspname::text from pg_catalog.pg_class c
		join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = pg_catalog.to_regclass($1)), '')`
	err = db.QueryRow(ctx, schemaOf, c.Tables[0]).Scan(&schema)
	return schema, err
}

// wrap says what err stopped. A bad name is a mistake in the configuration.
func (c *Component) wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRoleName) || errors.Is(err, pgkit.ErrSchemaName):
		return fmt.Errorf("%w: %w", c.ErrConfig, err)
	}
	return fmt.Errorf("%s: %s: %w", c.Package, doing, err)
}

// Folder returns the folder of files that are embedded. It panics if there is none: that is a
// mistake in the code around it, found when the program starts.
func Folder(files fs.FS, name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err) //nolint:forbidigo // see above
	}
	return sub
}
