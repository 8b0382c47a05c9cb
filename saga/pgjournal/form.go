package pgjournal

import (
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A form is a statement on rows that the caller sends: start.sql and append.sql. The file has the
// form for a lone row, whose values and settings are in a subquery.
type form struct {
	one, many pgkit.Query
	rows      *pgkit.RowsQuery // instead of many, for rows that distributed tables get; or nil
}

var (
	rowValue    = regexp.MustCompile(`@(\w+)::(\w+) as`)
	rowSettings = regexp.MustCompile(`(?m)^\s*where set_config\(.*\n`)
	// A saga that completes changes none of these columns but the status.
	unfinished = regexp.MustCompile(`@(deadline_at|wake_at|cause|stuck_on|fails)::(\w+) as`)
	finished   = strings.NewReplacer("@status::smallint as", "3::smallint as", "@ends::interval as", "interval '0' as")
)

func whole(text string) string { return text }

// without leaves the settings of a lone row out. They are set already, or are the user's.
func without(text string) string { return rowSettings.ReplaceAllString(text, "") }

// manyRows takes arrays for values, after flush.sql. The arrays are unnested in a select list: in
// the from clause each array would have its own store of rows.
func manyRows(text string) string {
	return rowValue.ReplaceAllString(without(text), "unnest(@$1::$2[]) as")
}

// finishing is append.sql for sagas that complete. Most sagas complete, and this form needs few of
// the values.
func finishing(text string) string {
	return finished.Replace(unfinished.ReplaceAllString(text, "null::$2 as"))
}

// forms are the statements that start.sql and append.sql stand for.
var forms = []struct {
	name, file string
	into       func(*queries) *pgkit.Query
	of         func(text string) string
}{
	{"start", "start", func(q *queries) *pgkit.Query { return &q.start.one }, whole},
	{"start_many", "start", func(q *queries) *pgkit.Query { return &q.start.many }, manyRows},
	{"start_tx", "start", func(q *queries) *pgkit.Query { return &q.startTx }, without},
	{"append", "append", func(q *queries) *pgkit.Query { return &q.append.one }, whole},
	{"append_many", "append", func(q *queries) *pgkit.Query { return &q.append.many }, manyRows},
	{"finish", "append", func(q *queries) *pgkit.Query { return &q.finish.one }, finishing},
	{"finish_many", "append", func(q *queries) *pgkit.Query { return &q.finish.many }, func(text string) string { return manyRows(finishing(text)) }},
}

// parseDistributed leaves out the settings of a lone row, see [pgkit.DistributedText]. An update of
// several rows gets a list of their keys, by which Citus finds the shard.
func parseDistributed(name, text, schema string) (pgkit.Query, error) {
	if strings.HasSuffix(name, "_many") {
		text = strings.Replace(text, "where i.id = o.id", "where i.id = any (@id) and i.id = o.id", 1)
	}
	return pgkit.ParseDistributedQuery(name, without(text), schema)
}

func (q *queries) loadForms(parse func(name, text, schema string) (pgkit.Query, error), schema string) error {
	for _, f := range forms {
		text, err := queryFiles.ReadFile("query/" + f.file + ".sql")
		if err != nil {
			return err
		}
		if *f.into(q), err = parse(f.name, f.of(string(text)), schema); err != nil {
			return err
		}
	}
	return nil
}

// A column is a value of each row in a form.
type column[Row any] struct {
	name string
	one  func(*Row) any
	many func([]Row) any
}

func col[Row, V any](name string, of func(*Row) V) column[Row] {
	return column[Row]{name, func(row *Row) any { return of(row) }, func(rows []Row) any {
		values := make([]V, len(rows))
		for i := range rows {
			values[i] = of(&rows[i])
		}
		return pgkit.ArrayOf(values)
	}}
}

// numbered is the place of each row, counted from 1.
func numbered[Row any]() column[Row] {
	return column[Row]{"n", func(*Row) any { return int32(1) }, func(rows []Row) any { return pgkit.Numbers(len(rows)) }}
}

// values returns the columns of a lone row as they are, and those of several rows as arrays.
func values[Row any](columns []column[Row], rows []Row) pgx.NamedArgs {
	args := make(pgx.NamedArgs, len(columns)+1)
	for _, c := range columns {
		if len(rows) == 1 {
			args[c.name] = c.one(&rows[0])
		} else {
			args[c.name] = c.many(rows)
		}
	}
	return args
}

// bind returns the statement for the rows. A lone row sets the lock timeout itself.
func bind[Row any](f form, columns []column[Row], rows []Row, lockTimeout string) pgkit.Statement {
	if len(rows) > 1 && f.rows != nil {
		each := make([]pgx.NamedArgs, len(rows))
		for i := range rows {
			each[i] = values(columns, rows[i:i+1])
		}
		return f.rows.Bind(each)
	}
	args := values(columns, rows)
	if len(rows) > 1 {
		return f.many.Bind(args)
	}
	args["lock_timeout"] = lockTimeout
	return f.one.Bind(args)
}
