package pgjournal

import (
	"embed"

	"github.com/fanonce/fanonce/internal/pgkit"
)

//go:embed query/*.sql query/columns/*.sql query/distributed/*.sql
var queryFiles embed.FS

// queries are the statements of a journal for one schema. The field ReadPlan has the statement of
// query/read_plan.sql: [pgkit.LoadStatements] finds the file of a field by its name.
type queries struct {
	// for engines
	Plan, ReadPlan, Heartbeat, Leave, ByIndex, Claimable, Claim pgkit.Query

	// for the writes and reads of a saga
	Start, StartMany, StartTx, Started, Append, AppendMany, AppendResults, Finish, FinishMany pgkit.Query
	Compact, Defer, Flush, Read, ReadOutlines, Confirm, Results, Entries                      pgkit.Query

	// for operators, and the upkeep
	List, Stats, Change, ChangePlan, Wake, ChangeSettings, PruneAudit, Sweep, SweepEngines pgkit.Query

	// for local steps
	LocalBegin, LocalEnd, LocalBar, LocalUndo, LocalRead pgkit.Query

	// for signals
	Send, SendTx, Takes, Sent, ConfirmSent, EndWait, Signals, Unheard, Hear pgkit.Query

	// for distributed tables
	Enroll, Owners, EndLeases, LongLeases, BoundLease, SweepSignals, KeepSignals pgkit.Query `sql:"distributed"`

	startForm, appendForm, finishForm form
}

var queriesBySchema = pgkit.BySchema[*queries]{Load: loadQueries}

func loadQueries(schema string, distributed bool) (*queries, error) {
	q := new(queries)
	err := pgkit.LoadStatements(queryFiles, schema, distributed, q)
	if err != nil {
		return nil, err
	}
	q.makeForms()
	if distributed {
		q.startForm.rows, err = q.Start.Rows()
	}
	return q, err
}

// makeForms joins the statements for a lone row with those for several rows.
func (q *queries) makeForms() {
	q.startForm = form{one: q.Start, many: q.StartMany}
	q.appendForm = form{one: q.Append, many: q.AppendMany}
	q.finishForm = form{one: q.Finish, many: q.FinishMany}
}
