package pgjournal

import (
	"strings"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// readerQueries are the statements of a [Reader] for one schema.
type readerQueries struct {
	ReaderShow, ReaderIndex, ReadPlan, ReaderPlans, ByIndex, Stats, ReaderEstimate pgkit.Query
	ReaderAudit, ReaderAuditOf, ReaderUnfinished, ReaderBrowse                     pgkit.Query

	unfinishedBlind, browseBlind pgkit.Query // for roles that may not read why a saga failed
	oldest, oldestBlind          pgkit.Query // ReaderUnfinished and unfinishedBlind, the oldest first
}

var readerQueriesBySchema = pgkit.BySchema[*readerQueries]{Load: loadReaderQueries}

func loadReaderQueries(schema string, distributed bool) (*readerQueries, error) {
	q := new(readerQueries)
	if err := pgkit.LoadStatements(queryFiles, schema, distributed, q); err != nil {
		return nil, err
	}
	q.unfinishedBlind = q.ReaderUnfinished.Replace(failuresToNull)
	q.browseBlind = q.ReaderBrowse.Replace(failuresToNull)
	q.oldest = q.ReaderUnfinished.Replace(oldestFirst)
	q.oldestBlind = q.unfinishedBlind.Replace(oldestFirst)
	return q, nil
}

// oldestFirst turns the order of a list around.
var oldestFirst = strings.NewReplacer("created_at desc", "created_at", "id desc", "id")

// failuresToNull makes a statement that reads neither cause nor stuck_on.
var failuresToNull = strings.NewReplacer(
	", cause, stuck_on\n", ", null::bytea as cause, null::bytea as stuck_on\n",
	"in stuck_on)", "in null::bytea)",
)
