package pgstore

import (
	"embed"

	"github.com/fanonce/fanonce/internal/pgkit"
)

//go:embed query/*.sql query/columns/*.sql query/distributed/*.sql
var queryFiles embed.FS

// queries are the statements of a store for one schema. The field ClaimMany has the statement of
// query/claim_many.sql: [pgkit.LoadStatements] finds the file of a field by its name.
type queries struct {
	// for claims, settlements, undos and waiting
	Claim, Flush, ClaimMany, ClaimManyAlike, SettleManyAlike, TooOld, Read                                 pgkit.Query
	ReadMany, Confirm, TakeOver, Quarantine, Renew, LockTimeout, Settle, SettleMany, SettleTx              pgkit.Query
	Settled, EndUnknown, Lock, CancelAbsent, Cancel, SetLockTimeout, Sweep, Ended, Expect, Channel, Notify pgkit.Query
	AsPool, AsHandler                                                                                      pgkit.Query

	// for operators and their dashboards
	Stats, Size, NoteAttention, DropAttention, SweepAttention pgkit.Query
	StaleNotes, FindDead                                      pgkit.Query
	FindAttention, Resolve, Forget, Defer, PruneAudit         pgkit.Query

	// for Once and intents
	Once, OnceOrFail, OnceRecord, OnceConfirm, BoundLocks, UnboundLocks, IntentBegin, Intent pgkit.Query
	IntentDone, IntentsPending, IntentsSweep                                                 pgkit.Query

	// for answers in partitions, and their upkeep
	Partitions, DetachedPartitions, NoteDetached, ForgetDetached, OwnsAnswers, Clock pgkit.Query
	DropAnswers, SettlePartitioned, SettleManyPartitioned, SettleTxPartitioned       pgkit.Query
	ReadPartitioned, ReadManyPartitioned                                             pgkit.Query

	// for distributed tables
	SweepKeys, AnswerKeys, NoteDead pgkit.Query `sql:"distributed"`

	schema      string // empty: the search_path finds the tables
	distributed bool
	claimRows   *pgkit.RowsQuery // ClaimMany, for distributed tables
}

var queriesBySchema = pgkit.BySchema[*queries]{Load: loadQueries}

// loadQueries loads the statements. Once and Barrier, which do not know whether the tables are distributed, send
// statements that are the same in both forms.
func loadQueries(schema string, distributed bool) (*queries, error) {
	q := &queries{schema: schema, distributed: distributed}
	err := pgkit.LoadStatements(queryFiles, schema, distributed, q)
	if err == nil && distributed {
		q.claimRows, err = q.ClaimMany.Rows()
	}
	return q, err
}
