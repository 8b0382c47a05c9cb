package pgjournal

import (
	"context"
	"embed"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgkit"
)

//go:embed migration/*.sql
var migrationFiles embed.FS

// Migrations are the journal's tables, in numbered steps of plain SQL. Another
// migration tool can run the files as they are.
var Migrations = pgkit.Migrations{Component: "saga", Files: mustSub(migrationFiles, "migration")}

// mustSub cannot fail for a folder that is embedded above.
func mustSub(files fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		panic(err) //nolint:forbidigo // at start-up, and only if the line above is wrong
	}
	return sub
}

// Migrate brings the tables to the version that this package knows, in the
// first schema of the search_path; for another schema call
// [Migrations].Up. It may run in several processes at once, and does nothing
// where there is nothing to do. Run it before the first new process of a deploy starts:
// the old processes go on beside it.
//
// Migrate waits for a table's lock only briefly and tries again until ctx ends, so that
// requests do not queue behind it. It also tries again until ctx ends while the server is down,
// starting, read-only or out of connections. It returns a [*pgkit.SchemaError] if the tables are
// newer than this package and it cannot use them.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return await(ctx, func() error { return Migrations.Up(ctx, pool, "") }, nil)
}
