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
	if err := c.Migrations.Up(ctx, pool, schema); err != nil {
		return fmt.Errorf("%s: migrate: %w", c.Package, c.nameError(err))
	}
	return nil
}

// Distribute spreads the component's tables over the nodes of Citus, see [Distribute]. Its error wraps the component's
// ErrConfig for a name that no schema can have, and without a pool.
func (c *Component) Distribute(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if pool == nil {
		return fmt.Errorf("%w: nil pool", c.ErrConfig)
	}
	if err := Distribute(ctx, pool, schema, c.Spread); err != nil {
		return fmt.Errorf("%s: distribute: %w", c.Package, c.nameError(err))
	}
	return nil
}

// Grant runs the component's statements for these roles, see [Roles.Grant]. Its error wraps
// the component's ErrConfig for a name that no role or schema can have.
func (c *Component) Grant(ctx context.Context, pool *pgxpool.Pool, r Roles) error {
	if err := r.Grant(ctx, pool, c.Roles); err != nil {
		return fmt.Errorf("%s: grant: %w", c.Package, c.nameError(err))
	}
	return nil
}

// RolesSQL returns the statements that Grant runs.
func (c *Component) RolesSQL(r Roles) (string, error) {
	text, err := r.SQL(c.Roles)
	return text, c.nameError(err)
}

// IsDistributed reports whether the component's tables are distributed, see [pgkit.Distributed].
func (c *Component) IsDistributed(ctx context.Context, pool *pgxpool.Pool, schema string) (bool, error) {
	return pgkit.Distributed(ctx, pool, schema, c.Tables[0])
}

func (c *Component) nameError(err error) error {
	if errors.Is(err, ErrRoleName) || errors.Is(err, pgkit.ErrSchemaName) {
		return fmt.Errorf("%w: %w", c.ErrConfig, err)
	}
	return err
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
