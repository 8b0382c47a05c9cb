package pgkit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// A RowsQuery is an INSERT of several rows with VALUES. A node of Citus takes such rows as they are. For
// rows that a SELECT makes of arrays, the coordinator opens a connection for each shard.
//
// Its statements are prepared by name, so their numbers of rows are few: 1 to 16, and then eight up to
// each power of two. The last row is repeated up to such a number. So the statement must pass over a row
// that is there already. It is safe for concurrent use.
type RowsQuery struct {
	row   Query
	parts []string // before the row, the row, and behind it
	texts sync.Map // by the number of rows
}

var (
	insertedRow = regexp.MustCompile(`(?s)^(.*\bvalues )(\(.*\))(\s+on conflict .* do nothing\b.*)$`)
	position    = regexp.MustCompile(`\$\d+`)
)

// Rows returns the statement with any number of rows instead of one. It returns an error wrapping
// [ErrStatement] for a statement that is no INSERT with VALUES and ON CONFLICT DO NOTHING.
func (q Query) Rows() (*RowsQuery, error) {
	parts := insertedRow.FindStringSubmatch(q.sql)
	if parts == nil {
		return nil, fmt.Errorf("%w: %s inserts no row that can be repeated", ErrStatement, q.name)
	}
	return &RowsQuery{row: q, parts: parts[1:]}, nil
}

// text returns the statement for n rows.
func (q *RowsQuery) text(n int) string {
	if text, ok := q.texts.Load(n); ok {
		return text.(string) //nolint:errcheck,forcetypeassert // it is stored below
	}
	var text strings.Builder
	text.WriteString(q.parts[0])
	for i := range n {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(position.ReplaceAllStringFunc(q.parts[1], func(at string) string {
			k, _ := strconv.Atoi(at[1:])
			return "$" + strconv.Itoa(i*len(q.row.names)+k)
		}))
	}
	text.WriteString(q.parts[2])
	q.texts.Store(n, text.String())
	return text.String()
}

// roundUp returns the number of rows that are sent for n.
func roundUp(n int) int {
	step := 1
	for n > 16*step {
		step *= 2
	}
	return (n + step - 1) / step * step
}

// Bind returns the statement with the arguments of each row, of which there is one at least. It is as
// [Query.Bind], and the rows have one lock timeout.
func (q *RowsQuery) Bind(rows []pgx.NamedArgs) Statement {
	n := roundUp(len(rows))
	st := Statement{SQL: q.text(n), Args: make([]any, 0, n*len(q.row.names))}
	for i := range n {
		row := q.row.Bind(rows[min(i, len(rows)-1)])
		if row.err != nil {
			return row
		}
		st.settings = row.settings
		st.Args = append(st.Args, row.Args...)
	}
	return st
}
