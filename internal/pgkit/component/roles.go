package component

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// ErrRoleName: a role cannot have that name.
var ErrRoleName = errors.New("bad role name")

// Roles are the database roles that share a component's tables. An empty name
// means the default. A name matches ^[a-z_][a-z0-9_]{0,62}$, does not start with
// pg_, and is neither "public" nor "none". Two roles cannot have the same name.
type Roles struct {
	Owner    string // migrates; "fanonce_owner"
	Runtime  string // what a service has; "fanonce_runtime"
	Observer string // looks on; "fanonce_observer"
	Schema   string // of the tables; empty: the search_path finds them
}

var (
	roleName    = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
	defaultRole = regexp.MustCompile(`\bfanonce_(owner|runtime|observer)\b`)
)

// SQL returns the component's statements, which name the default roles, for these.
// A name other than the default is quoted, since it may be a reserved word. All names are replaced in one
// pass, since one role may have another role's default name.
// Its error wraps [ErrRoleName] and says which.
func (r Roles) SQL(statements string) (string, error) {
	names := make(map[string]string)
	seen := make(map[string]bool)
	for _, role := range []struct{ field, name, standard string }{
		{"Owner", r.Owner, "fanonce_owner"}, {"Runtime", r.Runtime, "fanonce_runtime"}, {"Observer", r.Observer, "fanonce_observer"},
	} {
		if role.name == "" {
			role.name = role.standard
		}
		if !canBeRole(role.name) {
			return "", fmt.Errorf("%w: Roles.%s %q must have 1 to 63 of a-z, 0-9 and _, and must not begin with a digit or pg_, nor be public or none", ErrRoleName, role.field, role.name)
		}
		if seen[role.name] {
			return "", fmt.Errorf("%w: Roles.%s %q is another role of them, too", ErrRoleName, role.field, role.name)
		}
		seen[role.name] = true
		names[role.standard] = role.name
		if role.name != role.standard {
			names[role.standard] = pgx.Identifier{role.name}.Sanitize()
		}
	}
	return defaultRole.ReplaceAllStringFunc(statements, func(name string) string { return names[name] }), nil
}

// canBeRole refuses names that Postgres refuses or takes for something else, quoted or not: a grant
// to "public" is a grant to all roles.
func canBeRole(name string) bool {
	return roleName.MatchString(name) && !strings.HasPrefix(name, "pg_") && name != "public" && name != "none"
}

// Grant runs the component's statements for these roles, in one transaction. Its error
// wraps [ErrRoleName] or [pgkit.ErrSchemaName] for a name that cannot be.
func (r Roles) Grant(ctx context.Context, pool *pgxpool.Pool, statements string) error {
	if err := pgkit.CheckSchemaName(r.Schema); err != nil {
		return err
	}
	text, err := r.SQL(statements)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if r.Schema != "" {
			if _, err := tx.Exec(ctx, "select set_config('search_path', $1, true)", r.Schema); err != nil {
				return err
			}
		}
		_, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll() // several statements
		return err
	})
}
