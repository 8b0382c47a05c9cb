package pgkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Component is a package that keeps tables of its own, as stores and journals do. Its methods are
// safe for concurrent use.
type Component struct {
	Package    string // what its errors begin with
	ErrConfig  error  // its error for a configuration that cannot be
	Migrations Migrations
	Tables     []string // that a role must be able to write
	Roles      string   // the statements of [Roles.SQL]
}

// Migrate brings the tables in a schema to the latest version, see [Migrations.Up]. Its error wraps
// the component's ErrConfig for a name that no schema can have.
func (c *Component) Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := c.Migrations.Up(ctx, pool, schema); err != nil {
		return fmt.Errorf("%s: migrate: %w", c.Package, c.nameError(err))
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

func (c *Component) nameError(err error) error {
	if errors.Is(err, ErrRoleName) || errors.Is(err, ErrSchemaName) {
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

// LoadQueries loads the files query/NAME.sql into the queries of these names, as [LoadQuery] does.
func LoadQueries(files fs.FS, schema string, groups ...map[string]*Query) error {
	return loadQueries(LoadQuery, files, schema, groups)
}

func loadQueries(load func(files fs.FS, file, schema string) (Query, error), files fs.FS, schema string, groups []map[string]*Query) error {
	for _, group := range groups {
		for name, into := range group {
			query, err := load(files, "query/"+name+".sql", schema)
			if err != nil {
				return err
			}
			*into = query
		}
	}
	return nil
}

// BySchema keeps the result of Load for each schema that it was asked for. It is safe
// for concurrent use.
type BySchema[Q any] struct {
	Load func(schema string) (Q, error)

	loaded sync.Map // string → Q
}

// For returns what Load returns for the schema. An error is not kept.
func (b *BySchema[Q]) For(schema string) (Q, error) {
	if q, ok := b.loaded.Load(schema); ok {
		return q.(Q), nil //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	q, err := b.Load(schema)
	if err == nil {
		b.loaded.Store(schema, q)
	}
	return q, err
}

// ExecInBatches sends a statement that deletes at most batch rows until it deletes fewer. It returns
// how many it deleted, also with an error.
func ExecInBatches(ctx context.Context, w *Writer, st Statement, batch int64) (int, error) {
	total := 0
	for {
		n, err := RetryConflict(ctx, func() (int64, error) { return Exec(ctx, w, st) })
		total += int(n)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || n < batch {
			return total, err
		}
	}
}
