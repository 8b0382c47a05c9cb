package pgjournal

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RolesSQL is role/roles.sql: plain SQL that makes the three roles of [Roles] with
// their default names, for another tool to run.
//
//go:embed role/roles.sql
var RolesSQL string

// Roles are the database roles that share the tables. An empty name means the
// default. A name matches ^[a-z_][a-z0-9_]{0,62}$ and does not start with pg_.
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
	text, err := r.SQL()
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if r.Schema != "" {
			if _, err := tx.Exec(ctx, "select set_config('search_path', $1, true)", r.Schema); err != nil {
				return err
			}
		}
		_, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll() // several statements
		return err
	})
	return wrap("grant", err)
}

var roleName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// SQL returns what [Roles.Grant] runs. It names no schema: the search_path decides.
func (r Roles) SQL() (string, error) {
	text := RolesSQL
	seen := make(map[string]bool)
	for _, role := range []struct{ field, name, standard string }{
		{"Owner", r.Owner, "fanonce_owner"}, {"Runtime", r.Runtime, "fanonce_runtime"}, {"Observer", r.Observer, "fanonce_observer"},
	} {
		if role.name == "" {
			role.name = role.standard
		}
		if !roleName.MatchString(role.name) || strings.HasPrefix(role.name, "pg_") {
			return "", fmt.Errorf("%w: Roles.%s %q", ErrConfig, role.field, role.name)
		}
		if seen[role.name] {
			return "", fmt.Errorf("%w: Roles.%s %q is there twice", ErrConfig, role.field, role.name)
		}
		seen[role.name] = true
		text = strings.ReplaceAll(text, role.standard, role.name)
	}
	return text, nil
}
