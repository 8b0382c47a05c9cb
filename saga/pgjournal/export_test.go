package pgjournal

import "github.com/fanonce/fanonce/internal/pgkit"

// Forms returns the forms of start.sql and append.sql, and flush.sql.
func Forms() (map[string]pgkit.Query, error) {
	q, err := loadQueries("", false)
	if err != nil {
		return nil, err
	}
	return map[string]pgkit.Query{
		"start": q.Start, "start_many": q.StartMany, "start_tx": q.StartTx,
		"append": q.Append, "append_many": q.AppendMany, "finish": q.Finish, "finish_many": q.FinishMany,
		"flush": q.Flush,
	}, nil
}
