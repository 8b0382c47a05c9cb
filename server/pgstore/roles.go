package pgstore

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

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
	return component.Grant(ctx, pool, pgkit.Roles(r))
}

// SQL returns what [Roles.Grant] runs. It names no schema: the search_path decides.
func (r Roles) SQL() (string, error) { return component.RolesSQL(pgkit.Roles(r)) }
