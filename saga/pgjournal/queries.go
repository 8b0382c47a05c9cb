package pgjournal

import (
	"embed"

	"github.com/fanonce/fanonce/internal/pgkit"
)

//go:embed query/*.sql query/columns/*.sql query/distributed/*.sql
var queryFiles embed.FS

// queries are the files of query/, ready for one schema.
type queries struct {
	plan, readPlan                    pgkit.Query
	heartbeat, leave                  pgkit.Query
	start, append, finish             form
	startTx, started                  pgkit.Query
	appendResults, compact, deferSaga pgkit.Query
	flush                             pgkit.Query
	read, confirm, results, entries   pgkit.Query
	byIndex, claimable, claim         pgkit.Query
	list, stats                       pgkit.Query
	change, wake, changeSettings      pgkit.Query
	auditLog, pruneAudit              pgkit.Query
	sweep, sweepEngines               pgkit.Query
	enroll, owners, endLeases         pgkit.Query // for distributed tables alone
}

var (
	queriesBySchema     = pgkit.BySchema[*queries]{Load: loadQueries}
	distributedBySchema = pgkit.BySchema[*queries]{Load: loadDistributedQueries}
)

func loadQueries(schema string) (*queries, error) {
	q := new(queries)
	return q, pgkit.LoadQueries(queryFiles, schema, q.files())
}

func loadDistributedQueries(schema string) (*queries, error) {
	q := new(queries)
	err := pgkit.LoadDistributedQueries(queryFiles, schema, q.files(), map[string]*pgkit.Query{
		"enroll":     &q.enroll,
		"owners":     &q.owners,
		"end_leases": &q.endLeases,
	})
	if err == nil {
		q.start.rows, err = q.start.one.Rows()
	}
	return q, err
}

// queries returns the statements that the tables need.
func (c Config) queries() (*queries, error) {
	if c.Distributed {
		return distributedBySchema.For(c.Schema)
	}
	return queriesBySchema.For(c.Schema)
}

// files are the statements that are one file each.
func (q *queries) files() map[string]*pgkit.Query {
	return map[string]*pgkit.Query{
		"start":           &q.start.one,
		"start_many":      &q.start.many,
		"start_tx":        &q.startTx,
		"append":          &q.append.one,
		"append_many":     &q.append.many,
		"finish":          &q.finish.one,
		"finish_many":     &q.finish.many,
		"plan":            &q.plan,
		"read_plan":       &q.readPlan,
		"heartbeat":       &q.heartbeat,
		"leave":           &q.leave,
		"started":         &q.started,
		"append_results":  &q.appendResults,
		"compact":         &q.compact,
		"defer":           &q.deferSaga,
		"flush":           &q.flush,
		"read":            &q.read,
		"confirm":         &q.confirm,
		"results":         &q.results,
		"entries":         &q.entries,
		"by_index":        &q.byIndex,
		"claimable":       &q.claimable,
		"claim":           &q.claim,
		"list":            &q.list,
		"stats":           &q.stats,
		"change":          &q.change,
		"change_settings": &q.changeSettings,
		"wake":            &q.wake,
		"audit_log":       &q.auditLog,
		"prune_audit":     &q.pruneAudit,
		"sweep":           &q.sweep,
		"sweep_engines":   &q.sweepEngines,
	}
}
