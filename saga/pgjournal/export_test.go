package pgjournal

import "github.com/fanonce/fanonce/internal/pgkit"

// Forms returns the forms of start.sql and append.sql, and flush.sql.
func Forms() (map[string]pgkit.Query, error) {
	q, err := loadQueries("")
	return map[string]pgkit.Query{
		"start": q.start.one, "start_many": q.start.many, "start_tx": q.startTx,
		"append": q.append.one, "append_many": q.append.many, "finish": q.finish.one, "finish_many": q.finish.many,
		"flush": q.flush,
	}, err
}
