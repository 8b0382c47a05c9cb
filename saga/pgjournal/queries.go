package pgjournal

import (
	"embed"

	"github.com/fanonce/fanonce/server/pgkit"
)

//go:embed query/*.sql
var queryFiles embed.FS

// queries are the files of query/, ready for one schema.
type queries struct {
	plan, readPlan                  pgkit.Query
	beat, leave                     pgkit.Query
	start, startTx, started         pgkit.Query
	appendOne, appendLarge, compact pgkit.Query
	finish, finishMany, park        pgkit.Query
	flush, startMany, appendMany    pgkit.Query
	read, confirm, results, entries pgkit.Query
	byIndex, claimable, claim       pgkit.Query
	list, stats                     pgkit.Query
	change, wake                    pgkit.Query
	auditLog, pruneAudit            pgkit.Query
	sweep, sweepEngines             pgkit.Query
}

func loadQueries(schema string) (*queries, error) {
	q := new(queries)
	for _, f := range []struct {
		into *pgkit.Query
		file string
	}{
		{&q.plan, "plan"},
		{&q.readPlan, "read_plan"},
		{&q.beat, "beat"},
		{&q.leave, "leave"},
		{&q.start, "start"},
		{&q.startTx, "start_tx"},
		{&q.started, "started"},
		{&q.appendOne, "append"},
		{&q.appendLarge, "append_large"},
		{&q.compact, "compact"},
		{&q.park, "park"},
		{&q.flush, "flush"},
		{&q.startMany, "start_many"},
		{&q.appendMany, "append_many"},
		{&q.finish, "finish"},
		{&q.finishMany, "finish_many"},
		{&q.read, "read"},
		{&q.confirm, "confirm"},
		{&q.results, "results"},
		{&q.entries, "entries"},
		{&q.byIndex, "by_index"},
		{&q.claimable, "claimable"},
		{&q.claim, "claim"},
		{&q.list, "list"},
		{&q.stats, "stats"},
		{&q.change, "change"},
		{&q.wake, "wake"},
		{&q.auditLog, "audit_log"},
		{&q.pruneAudit, "prune_audit"},
		{&q.sweep, "sweep"},
		{&q.sweepEngines, "sweep_engines"},
	} {
		query, err := pgkit.LoadQuery(queryFiles, "query/"+f.file+".sql", schema)
		if err != nil {
			return nil, err
		}
		*f.into = query
	}
	return q, nil
}
