package pgjournal

import (
	"embed"

	"github.com/fanonce/fanonce/internal/pgkit"
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

var queriesBySchema = pgkit.BySchema[*queries]{Load: loadQueries}

func loadQueries(schema string) (*queries, error) {
	q := new(queries)
	return q, pgkit.LoadQueries(queryFiles, schema, map[string]*pgkit.Query{
		"plan":          &q.plan,
		"read_plan":     &q.readPlan,
		"beat":          &q.beat,
		"leave":         &q.leave,
		"start":         &q.start,
		"start_tx":      &q.startTx,
		"started":       &q.started,
		"append":        &q.appendOne,
		"append_large":  &q.appendLarge,
		"compact":       &q.compact,
		"park":          &q.park,
		"flush":         &q.flush,
		"start_many":    &q.startMany,
		"append_many":   &q.appendMany,
		"finish":        &q.finish,
		"finish_many":   &q.finishMany,
		"read":          &q.read,
		"confirm":       &q.confirm,
		"results":       &q.results,
		"entries":       &q.entries,
		"by_index":      &q.byIndex,
		"claimable":     &q.claimable,
		"claim":         &q.claim,
		"list":          &q.list,
		"stats":         &q.stats,
		"change":        &q.change,
		"wake":          &q.wake,
		"audit_log":     &q.auditLog,
		"prune_audit":   &q.pruneAudit,
		"sweep":         &q.sweep,
		"sweep_engines": &q.sweepEngines,
	})
}
