package pgstore

import (
	"context"
	"embed"
	_ "embed"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

//go:embed migration/*.sql
var embedded embed.FS

// MigrationFiles are the store's tables in numbered steps, in the root of the file system:
// NNNN_name.up.sql and NNNN_name.down.sql. They are plain SQL and name no schema. Another migration
// tool can run them instead of [Migrate]: the command examples/migrations writes them in the forms of
// tern, goose and golang-migrate.
var MigrationFiles fs.FS = component.Folder(embedded, "migration")

var storeTables = &component.Component{
	Package: "pgstore", ErrConfig: ErrConfig, Tables: []string{"idempotency", "idempotency_attention"}, Roles: RolesSQL,
	Migrations: component.Migrations{Component: "idempotency", Files: MigrationFiles}, Spread: distributedTables,
}

// Migrate brings the tables in a Postgres schema to the version that this package
// knows, and creates the schema if it is missing. An empty schema means the first one
// of the search_path. Migrate may run in several processes at once. It does nothing
// where the tables have that version, or a newer one that this package can use. Run it before the first
// new process of a deploy starts: the old processes go on beside it.
//
// Migrate waits for a table's lock only briefly and tries again until ctx ends, so that
// requests do not queue behind it.
//
// It returns an error wrapping [ErrSchemaNewer] if the tables are newer than this package and it
// cannot use them. It returns an error wrapping [ErrConfig] for a name that no schema of [Config]
// can have.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return storeTables.Migrate(ctx, pool, schema)
}

// RolesSQL is role/roles.sql: plain SQL that makes the three roles of [Roles] with
// their default names, for another tool to run.
//
//go:embed role/roles.sql
var RolesSQL string

// Roles are the database roles that share the tables. An empty name means the
// default. A name matches ^[a-z_][a-z0-9_]{0,62}$, does not start with pg_, and is
// neither "public" nor "none". A reserved word can be a name: names are quoted.
type Roles struct {
	Owner    string // migrates; "fanonce_owner"
	Runtime  string // what a service has: no more than the store needs; "fanonce_runtime"
	Observer string // sees states and ages, and no answers; "fanonce_observer"
	Schema   string // of the tables, as [Config].Schema
}

// Grant makes the roles that are missing and gives each the rights that it needs, in one
// transaction. It can be called again, for example after each migration. The pool's role must be a
// superuser, or own the tables and be allowed to create roles. The roles cannot log in: grant them
// to roles that can.
//
// It returns an error wrapping [ErrConfig] for a name that cannot be.
func (r Roles) Grant(ctx context.Context, pool *pgxpool.Pool) error {
	return storeTables.Grant(ctx, pool, component.Roles(r))
}

// SQL returns what [Roles.Grant] runs. It names no schema: the search_path decides.
func (r Roles) SQL() (string, error) { return storeTables.RolesSQL(component.Roles(r)) }
