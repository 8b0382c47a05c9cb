package pgjournal

import "github.com/fanonce/fanonce/internal/pgkit"

// Forms returns the statements that start.sql and append.sql stand for, and flush.sql.
func Forms() (map[string]pgkit.Query, error) {
	q, err := loadQueries("")
	if err != nil {
		return nil, err
	}
	all := map[string]pgkit.Query{"flush": q.flush}
	for _, f := range forms {
		all[f.name] = *f.into(q)
	}
	return all, nil
}
