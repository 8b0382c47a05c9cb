package pgkit

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrSchemaName: the name of a Postgres schema is not one that this module
// accepts.
var ErrSchemaName = errors.New("schema name refused")

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// CheckSchemaName returns an error wrapping [ErrSchemaName] unless name is empty
// (the search_path decides) or matches ^[a-z_][a-z0-9_]{0,62}$ and does not
// start with pg_, which Postgres keeps for itself. Longer names would be cut
// off by Postgres, and could then name another schema than was meant.
func CheckSchemaName(name string) error {
	if name == "" {
		return nil
	}
	if !schemaName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("%w: %q", ErrSchemaName, name)
	}
	return nil
}

// prefix is what stands before a table's name: nothing, or the schema with a
// dot, quoted because it may be a reserved word.
func prefix(schema string) string {
	if schema == "" {
		return ""
	}
	return pgx.Identifier{schema}.Sanitize() + "."
}
