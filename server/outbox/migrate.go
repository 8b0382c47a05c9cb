package outbox

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/pgstore"
)

//go:embed migration/*.sql
var embedded embed.FS

// MigrationFiles are the tables in numbered steps, NNNN_name.up.sql and NNNN_name.down.sql. They are plain SQL and name
// no schema. Another migration tool can run them instead of [Migrate]: the command examples/migrations writes them in the
// forms of tern, goose and golang-migrate.
var MigrationFiles fs.FS = component.Folder(embedded, "migration")

// ErrConfig is wrapped by the errors of [New], [Outbox.NewRelay] and [Migrate] for a configuration that cannot work.
var ErrConfig = errors.New("outbox: bad configuration")

var outboxTables = &component.Component{
	Package: "outbox", ErrConfig: ErrConfig, Tables: []string{"outbox", "outbox_relay", "outbox_lane"},
	Migrations: component.Migrations{Component: "outbox", Files: MigrationFiles},
}

// Migrate creates the tables in a Postgres schema, or brings them to the version that this package knows. An empty
// schema means the first one of the search_path. It may run in several processes at once. The tables are in the
// database of the work, because a message is part of its transaction. On the coordinator of a Citus, Migrate also does
// what [Distribute] does.
//
// It returns an error wrapping [ErrConfig] for a name that no schema can have or without a pool, and the server's error.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if pool == nil {
		return fmt.Errorf("%w: nil pool", ErrConfig)
	}
	if err := outboxTables.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	if err := Distribute(ctx, pool, schema); !errors.Is(err, pgstore.ErrNoCitus) {
		return err
	}
	return nil
}
