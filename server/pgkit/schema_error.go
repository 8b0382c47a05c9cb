package pgkit

import (
	"errors"
	"fmt"
)

// What a [SchemaError] can be.
var (
	ErrSchemaMissing = errors.New("pgkit: schema missing")
	ErrSchemaOlder   = errors.New("pgkit: schema older than this program")
	ErrSchemaNewer   = errors.New("pgkit: schema newer than this program")
)

// A SchemaError says that the program cannot use the database's tables. It matches [ErrSchemaMissing], [ErrSchemaOlder] or
// [ErrSchemaNewer].
type SchemaError struct {
	Component  string // the Migrations' name
	Schema     string // empty: found by the search_path
	Have, Want int    // versions; Have is 0 where there are no tables
	Oldest     int    // programs that know this version can use the tables; 0 where there are none
}

func (e *SchemaError) Error() string {
	where := "the search_path"
	if e.Schema != "" {
		where = fmt.Sprintf("schema %q", e.Schema)
	}
	said := fmt.Sprintf("%v: %s in %s has version %d, want %d", e.kind(), e.Component, where, e.Have, e.Want)
	if e.Have < e.Want {
		return said + ": run its Migrate"
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
