package component

import (
	"errors"
	"fmt"
)

// These are the kinds of a [SchemaError].
var (
	ErrSchemaMissing = errors.New("schema missing")
	ErrSchemaOlder   = errors.New("schema older than this program")
	ErrSchemaNewer   = errors.New("schema newer than this program")
)

// A SchemaError says that the program cannot use the database's tables. It matches [ErrSchemaMissing], [ErrSchemaOlder] or
// [ErrSchemaNewer].
type SchemaError struct {
	Component  string // The Migrations' name.
	Schema     string // Empty: found by the search_path.
	Have, Want int    // Versions; Have is 0 if there are no tables.
	Oldest     int    // Programs that know this version can use the tables; 0 if there are no tables.
}

func (e *SchemaError) Error() string {
	where := "the search_path"
	if e.Schema != "" {
		where = fmt.Sprintf("schema %q", e.Schema)
	}
	const remedy = ": let the deploy run fanonce migrate up, or call Migrate, which Open does with Config.Migrate"
	if e.Have == 0 {
		return fmt.Sprintf("%v: there are no tables of %s in %s%s", e.kind(), e.Component, where, remedy)
	}
	said := fmt.Sprintf("%v: %s in %s has version %d, want %d", e.kind(), e.Component, where, e.Have, e.Want)
	if e.Have < e.Want {
		return said + remedy
	}
	return fmt.Sprintf("%s; programs from version %d on can use it: deploy one", said, e.Oldest)
}

// Is makes the error match its kind.
func (e *SchemaError) Is(target error) bool { return target == e.kind() }

func (e *SchemaError) kind() error {
	switch {
	case e.Have == 0:
		return ErrSchemaMissing
	case e.Have < e.Want:
		return ErrSchemaOlder
	default:
		return ErrSchemaNewer
	}
}
