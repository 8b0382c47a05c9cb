package pgjournal

import (
	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A form is a statement on rows that the caller sends. One is for a lone row, whose values and
// settings are in a subquery.
type form struct {
	one, many pgkit.Query
	rows      *pgkit.RowsQuery // instead of many, for rows that distributed tables get; or nil
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

// newNumberColumn returns the column of the place of each row, counted from 1.
func newNumberColumn[Row any]() column[Row] {
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
