package pgjournal

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgkit"
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
	Runtime  string // what a service has: no more than the journal needs; "fanonce_runtime"
	Observer string // sees statuses and ages, and no inputs or results; "fanonce_observer"
	Schema   string // of the tables, as [Config].Schema
}

// Grant makes the roles that are missing and gives each what it needs, in one
// transaction. It can be called again, as after each migration. The pool's role
// must be a superuser, or own the tables and be allowed to create roles. The roles
// cannot log in: grant them to those that do.
//
// It returns an error wrapping [ErrConfig] for a name that cannot be.
func (r Roles) Grant(ctx context.Context, pool *pgxpool.Pool) error {
	return wrap("grant", roleError(pgkit.Roles(r).Grant(ctx, pool, RolesSQL)))
}

// SQL returns what [Roles.Grant] runs. It names no schema: the search_path decides.
func (r Roles) SQL() (string, error) {
	text, err := pgkit.Roles(r).SQL(RolesSQL)
	return text, roleError(err)
}

// roleError makes a name that cannot be an error of the configuration.
func roleError(err error) error {
	if errors.Is(err, pgkit.ErrRoleName) || errors.Is(err, pgkit.ErrSchemaName) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return err
}
