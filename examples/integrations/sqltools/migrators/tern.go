package migrators

import (
	"context"
	"errors"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"
)

// Latest is the version to which all files of a folder lead.
const Latest = -1

// Tern brings a database to a version with the files in dir, up or down.
func Tern(ctx context.Context, url, dir string, to int) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	m, err := migrate.NewMigrator(ctx, conn, "public.schema_version") // where tern notes its version
	if err != nil {
		return err
	}
	if err := m.LoadMigrations(os.DirFS(dir)); err != nil {
		return err
	}
	if to == Latest {
		return m.Migrate(ctx)
	}
	return m.MigrateTo(ctx, int32(to)) //nolint:gosec // the number of a file
}
