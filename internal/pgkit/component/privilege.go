package component

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// ErrPrivilege is the sentinel that a [PrivilegeError] matches.
var ErrPrivilege = errors.New("role without a privilege")

// A PrivilegeError names the missing rights of a role on a table that it has to write, for example
// of a role that may only read.
type PrivilegeError struct {
	Role, Table string
	Missing     []string // of select, insert, update and delete
}

func (e *PrivilegeError) Error() string {
	return fmt.Sprintf("%v: %s may not %s %s", ErrPrivilege, e.Role, strings.Join(e.Missing, ", "), e.Table)
}

// Is makes the error match [ErrPrivilege].
func (e *PrivilegeError) Is(target error) bool { return target == ErrPrivilege }

// The privilege to update some columns is enough: the others never change.
const privileges = `select current_user, array(
	select p from unnest(array['select', 'insert', 'update', 'delete']) p
	where not case p when 'update' then has_any_column_privilege($1::regclass, p) else has_table_privilege($1::regclass, p) end)`

// CheckPrivileges returns a [*PrivilegeError] if the session's role may not write the table, which
// must be there. An empty schema means that the search_path finds it; else it is a name
// that [pgkit.CheckSchemaName] accepts.
func CheckPrivileges(ctx context.Context, db pgkit.Queryer, schema, table string) error {
	e := &PrivilegeError{Table: table}
	if err := db.QueryRow(ctx, privileges, pgkit.QualifyTable(schema, table)).Scan(&e.Role, &e.Missing); err != nil {
		return fmt.Errorf("privileges: %w", err)
	}
	if len(e.Missing) > 0 {
		return e
	}
	return nil
}
