package pgjournal

import (
	"context"
	"embed"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

//go:embed migration/*.sql
var embedded embed.FS

// MigrationFiles are the journal's tables in numbered steps, in the root of the file system:
// NNNN_name.up.sql and NNNN_name.down.sql. They are plain SQL and name no schema. Another migration
// tool can run them instead of [Migrate]: the command examples/migrations writes them in the forms of
// tern, goose and golang-migrate.
var MigrationFiles fs.FS = component.Folder(embedded, "migration")

var journalTables = &component.Component{
	Package: "pgjournal", ErrConfig: ErrConfig, Tables: []string{"saga"}, Roles: RolesSQL,
	Migrations: component.Migrations{Component: "saga", Files: MigrationFiles}, Spread: distributedTables,
}

// Migrate brings the tables in a Postgres schema to the version that this package
// knows, and creates the schema if it is missing. An empty schema means the first one
// of the search_path. Migrate may run in several processes at once. It does nothing
// where the tables have that version, or a newer one that this package can use. Run it before the first
// new process of a deploy starts: the old processes go on beside it.
//
// Migrate waits for a table's lock only briefly and tries again until ctx ends, so that
// requests do not queue behind it. It also tries again until ctx ends while the server is down,
// starting, read-only or out of connections.
//
// Migrate returns an error wrapping [ErrSchemaNewer] if the tables are newer than this package
// and the package cannot use them. It returns an error wrapping [ErrConfig] for a name that no
// schema of [Config] can have.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return await(ctx, func() error { return journalTables.Migrate(ctx, pool, schema) }, nil)
}
