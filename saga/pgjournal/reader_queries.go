package pgjournal

import (
	"io/fs"
	"strings"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// readerQueries are the statements of a [Reader] for one schema.
type readerQueries struct {
	show, index            pgkit.Query
	plan, plans            pgkit.Query
	byIndex, stats         pgkit.Query
	estimate               pgkit.Query
	audit, auditOf         pgkit.Query
	unfinished, browse     pgkit.Query
	unfinishedAs, browseAs pgkit.Query // for roles that may not read why a saga failed
}

var (
	readerQueriesBySchema            = pgkit.BySchema[*readerQueries]{Load: loadReaderQueries(pgkit.LoadQuery, pgkit.ParseQuery, pgkit.ReadStatement)}
	distributedReaderQueriesBySchema = pgkit.BySchema[*readerQueries]{Load: loadReaderQueries(pgkit.LoadDistributedQuery, pgkit.ParseDistributedQuery, pgkit.DistributedText)}
)

func loadReaderQueries(
	load func(files fs.FS, file, schema string) (pgkit.Query, error),
	parse func(name, text, schema string) (pgkit.Query, error),
	read func(files fs.FS, file string) (string, error),
) func(schema string) (*readerQueries, error) {
	return func(schema string) (*readerQueries, error) {
		q := new(readerQueries)
		for file, into := range map[string]*pgkit.Query{
			"reader_show": &q.show, "reader_index": &q.index, "read_plan": &q.plan, "reader_plans": &q.plans,
			"by_index": &q.byIndex, "stats": &q.stats, "reader_estimate": &q.estimate,
			"reader_audit": &q.audit, "reader_audit_of": &q.auditOf,
			"reader_unfinished": &q.unfinished, "reader_browse": &q.browse,
		} {
			var err error
			if *into, err = load(queryFiles, "query/"+file+".sql", schema); err != nil {
				return nil, err
			}
		}
		for file, into := range map[string]*pgkit.Query{"reader_unfinished": &q.unfinishedAs, "reader_browse": &q.browseAs} {
			text, err := read(queryFiles, "query/"+file+".sql")
			if err != nil {
				return nil, err
			}
			if *into, err = parse(file, withoutFailures(text), schema); err != nil {
				return nil, err
			}
		}
		return q, nil
	}
}

// withoutFailures returns a statement that reads neither cause nor stuck_on.
func withoutFailures(text string) string {
	text = strings.ReplaceAll(text, ", cause, stuck_on\n", ", null::bytea as cause, null::bytea as stuck_on\n")
	return strings.ReplaceAll(text, "in stuck_on)", "in null::bytea)")
}
