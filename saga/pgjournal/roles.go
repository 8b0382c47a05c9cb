package pgjournal

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit/component"
)

// RolesSQL is role/roles.sql. It is plain SQL that creates the three roles of [Roles] with their
// default names. Another tool can run it.
//
//go:embed role/roles.sql
var RolesSQL string

// Roles are the database roles that share the tables. An empty name means the
// default. A name matches ^[a-z_][a-z0-9_]{0,62}$, does not start with pg_, and is
// neither "public" nor "none". A reserved word can be a name: names are quoted.
type Roles struct {
	Owner    string // migrates; "fanonce_owner"
	Runtime  string // for services: has only the rights that the journal needs; "fanonce_runtime"
	Observer string // sees statuses and ages, and no inputs or results; "fanonce_observer"
	Schema   string // of the tables, as [Config].Schema
}

// Grant creates the missing roles and gives each role its rights, in one transaction. Call it
// again after each migration. The pool's role must be a superuser, or own the tables and be
// allowed to create roles. The roles cannot log in: grant them to your login roles.
//
// It returns an error wrapping [ErrConfig] for a name that cannot be.
func (r Roles) Grant(ctx context.Context, pool *pgxpool.Pool) error {
	return journalTables.Grant(ctx, pool, component.Roles(r))
}

// SQL returns what [Roles.Grant] runs. It names no schema: the search_path decides.
func (r Roles) SQL() (string, error) { return journalTables.RolesSQL(component.Roles(r)) }
