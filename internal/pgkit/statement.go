package pgkit

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// ErrStatement: a statement file or the arguments given for it are wrong. It is
// always a mistake in the code around it.
var ErrStatement = errors.New("statement")

// schemaMark stands before a table's name in a statement file. It is a comment,
// so that the file runs as it is wherever the search_path finds the table.
const schemaMark = "/*schema*/"

var (
	comment  = regexp.MustCompile(`(?m)^\s*--.*\n?`)
	argument = regexp.MustCompile(`@[a-z][a-z0-9_]*`)
	// columnsMark stands for a list of columns, such as /*record*/, or /*i.record*/ for the columns of i. The file may
	// also have another part that several statements share.
	columnsMark = regexp.MustCompile(`/\*(?:([a-z]+)\.)?([a-z]+)\*/`)
	columnName  = regexp.MustCompile(`[a-z_]+`)
	wordStart   = regexp.MustCompile(`([a-z])([A-Z])`)
)

// A Query is one SQL statement with named arguments, made ready once: pgx would
// look for the names again at each call.
type Query struct {
	name        string
	sql         string
	names       []string // names[i] is what $(i+1) was called
	distributed bool
}

// LoadQuery reads the statement in file. Comments are on lines of their own, and arguments are
// written as @name. The name of each table follows /*schema*/, which is replaced by schema if
// schema is not empty. A literal must not contain an @.
//
// The mark /*NAME*/ is replaced by the list of columns in columns/NAME.sql beside the file. So a list
// that several statements need stands once. The mark /*i.NAME*/ puts "i." before each column.
//
// It returns an error wrapping [ErrSchemaName], or the error of reading the file.
func LoadQuery(files fs.FS, file, schema string) (Query, error) {
	text, err := readStatement(files, file)
	if err != nil {
		return Query{}, err
	}
	return parse(Query{name: file}, plainLine.ReplaceAllString(text, "$1"), schema)
}

// readStatement returns the text of a statement with its lists of columns.
func readStatement(files fs.FS, file string) (string, error) {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrStatement, err)
	}
	return fillColumns(files, path.Dir(file), string(text))
}

// fillColumns replaces the marks of lists of columns. A list may contain marks of other lists.
func fillColumns(files fs.FS, dir, text string) (string, error) {
	var failed error
	filled := columnsMark.ReplaceAllStringFunc(text, func(mark string) string {
		if mark == schemaMark {
			return mark
		}
		part := columnsMark.FindStringSubmatch(mark)
		list, err := fs.ReadFile(files, path.Join(dir, "columns", part[2]+".sql"))
		if err != nil {
			failed = fmt.Errorf("%w: %w", ErrStatement, err)
			return mark
		}
		columns, err := fillColumns(files, dir, strings.TrimSpace(comment.ReplaceAllString(string(list), "")))
		if err != nil {
			failed = err
		}
		if part[1] == "" {
			return columns
		}
		return columnName.ReplaceAllString(columns, part[1]+".$0")
	})
	return filled, failed
}

// LoadDistributedQuery is [LoadQuery] for tables that are distributed over several servers; see
// [DistributedText].
func LoadDistributedQuery(files fs.FS, file, schema string) (Query, error) {
	text, err := DistributedText(files, file)
	if err != nil {
		return Query{}, err
	}
	return parse(Query{name: file, distributed: true}, text, schema)
}

func parse(q Query, text, schema string) (Query, error) {
	if err := CheckSchemaName(schema); err != nil {
		return Query{}, err
	}
	sql := strings.ReplaceAll(comment.ReplaceAllString(text, ""), schemaMark, schemaPrefix(schema))
	q.sql = strings.TrimSpace(argument.ReplaceAllStringFunc(sql, q.position))
	return q, nil
}

// position returns the $n of an argument; the same name gets the same number.
func (q *Query) position(arg string) string {
	i := slices.Index(q.names, arg[1:])
	if i < 0 {
		i = len(q.names)
		q.names = append(q.names, arg[1:])
	}
	return "$" + strconv.Itoa(i+1)
}

// HasArgument reports whether the statement has an argument of that name.
func (q Query) HasArgument(name string) bool { return slices.Contains(q.names, name) }

// SQL returns the statement with numbered arguments, as it is sent.
func (q Query) SQL() string { return q.sql }

// Replace returns the query with r applied to its text, as it is sent. Its arguments stay as they are.
func (q Query) Replace(r *strings.Replacer) Query {
	q.sql = r.Replace(q.sql)
	return q
}

// Bind returns the statement with values for its arguments. A name that is
// missing or unknown is an error wrapping [ErrStatement] when the statement is
// sent. A statement for distributed tables may leave values out.
func (q Query) Bind(values pgx.NamedArgs) Statement {
	st := Statement{SQL: q.sql, Args: make([]any, len(q.names))}
	if q.distributed {
		st.settings = distributedSettings(values["lock_timeout"])
	} else if len(values) != len(q.names) {
		st.err = fmt.Errorf("%w: %s takes %d arguments, got %d", ErrStatement, q.name, len(q.names), len(values))
		return st
	}
	for i, name := range q.names {
		value, ok := values[name]
		if !ok {
			st.err = fmt.Errorf("%w: %s: no value for @%s", ErrStatement, q.name, name)
			return st
		}
		st.Args[i] = value
	}
	return st
}

// A Statement is ready to be sent.
type Statement struct {
	SQL  string
	Args []any

	settings []string // statements that go before it in its transaction
	err      error
}

// Settings are the statements that must go before this one in its transaction, mostly none.
func (s Statement) Settings() []string { return s.settings }

// Err returns what is wrong with the statement, or nil.
func (s Statement) Err() error { return s.err }

// ErrSchemaName: the name of a Postgres schema is not one that this module
// accepts.
var ErrSchemaName = errors.New("Schema")

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
		return fmt.Errorf("%w %q must have 1 to 63 of a-z, 0-9 and _, and must not begin with a digit or pg_", ErrSchemaName, name)
	}
	return nil
}

// QualifyTable returns a table's name as a statement has it: behind the schema, unless that is empty.
func QualifyTable(schema, table string) string { return schemaPrefix(schema) + table }

// schemaPrefix is what stands before a table's name: nothing, or the schema with a
// dot, quoted because it may be a reserved word.
func schemaPrefix(schema string) string {
	if schema == "" {
		return ""
	}
	return pgx.Identifier{schema}.Sanitize() + "."
}

// An Array is a Postgres array of one dimension. pgx encodes it without reflection, and without an
// allocation for each element. *T must implement the interface of pgx's codec for the element, as
// the types of pgtype do.
type Array[T any] []T

// Dimensions implements [pgtype.ArrayGetter].
func (a Array[T]) Dimensions() []pgtype.ArrayDimension {
	if a == nil {
		return nil
	}
	return []pgtype.ArrayDimension{{Length: int32(len(a)), LowerBound: 1}} //nolint:gosec // a flush has few
}

// Index implements [pgtype.ArrayGetter].
func (a Array[T]) Index(i int) any { return &a[i] }

// IndexType implements [pgtype.ArrayGetter].
func (a Array[T]) IndexType() any { return new(T) }

// ArrayOf returns a slice as an [Array], where pgx would encode it by reflection.
func ArrayOf[T any](values []T) any {
	switch values := any(values).(type) {
	case []pgtype.UUID:
		return Array[pgtype.UUID](values)
	case []pgtype.Timestamptz:
		return Array[pgtype.Timestamptz](values)
	case []pgtype.Int2:
		return Array[pgtype.Int2](values)
	case []time.Duration:
		intervals := make(Array[pgtype.Interval], len(values))
		for i, d := range values {
			intervals[i] = Interval(d)
		}
		return intervals
	case [][]byte:
		byteas := make(Array[Bytea], len(values))
		for i, b := range values {
			byteas[i] = b
		}
		return byteas
	}
	return values
}

// Interval is d as an element of an [Array].
func Interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// A Bytea is a bytea in an [Array]. nil is null.
type Bytea []byte

// BytesValue implements [pgtype.BytesValuer].
func (b *Bytea) BytesValue() ([]byte, error) { return *b, nil }

// registerArrays tells m which types of Postgres the arrays have. The exec modes that do not ask the
// server go by the Go type.
func registerArrays(m *pgtype.Map) {
	m.RegisterDefaultPgType(Array[pgtype.UUID](nil), "_uuid")
	m.RegisterDefaultPgType(Array[pgtype.Timestamptz](nil), "_timestamptz")
	m.RegisterDefaultPgType(Array[pgtype.Interval](nil), "_interval")
	m.RegisterDefaultPgType(Array[pgtype.Int2](nil), "_int2")
	m.RegisterDefaultPgType(Array[pgtype.Int4](nil), "_int4")
	m.RegisterDefaultPgType(Array[pgtype.Text](nil), "_text")
	m.RegisterDefaultPgType(Array[Bytea](nil), "_bytea")
}

// LoadStatements loads the fields of the struct into that are of type [Query]. The field ClaimMany has
// the statement of query/claim_many.sql, in the form for distributed tables if they are. A field with the
// tag sql:"distributed" has a statement only then. So a statement is a file and the name of a field.
func LoadStatements(files fs.FS, schema string, distributed bool, into any) error {
	load := LoadQuery
	if distributed {
		load = LoadDistributedQuery
	}
	fields := reflect.ValueOf(into).Elem()
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		query, ok := fields.Field(i).Addr().Interface().(*Query)
		if !ok || !distributed && field.Tag.Get("sql") == "distributed" {
			continue
		}
		var err error
		if *query, err = load(files, "query/"+fileName(field.Name)+".sql", schema); err != nil {
			return err
		}
	}
	return nil
}

// fileName returns claim_many for ClaimMany.
func fileName(field string) string {
	return strings.ToLower(wordStart.ReplaceAllString(field, "${1}_$2"))
}

// BySchema keeps the statements of each schema that it was asked for, in the form for one server and in the form for
// distributed tables. It is safe for concurrent use.
type BySchema[Q any] struct {
	Load func(schema string, distributed bool) (Q, error)

	loaded sync.Map // form → Q
}

// A form names what a BySchema keeps.
type form struct {
	schema      string
	distributed bool
}

// For returns what Load returns. An error is not kept.
func (b *BySchema[Q]) For(schema string, distributed bool) (Q, error) {
	key := form{schema, distributed}
	if q, ok := b.loaded.Load(key); ok {
		return q.(Q), nil //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	q, err := b.Load(schema, distributed)
	if err == nil {
		b.loaded.Store(key, q)
	}
	return q, err
}

// Milliseconds is d as Postgres reads a timeout.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
