package pgstore

import (
	"embed"

	"github.com/fanonce/fanonce/internal/pgkit"
)

//go:embed query/*.sql query/columns/*.sql query/distributed/*.sql
var queryFiles embed.FS

// queries are the files of query/, ready for one schema.
type queries struct {
	claim, tooOld, read, confirm          pgkit.Query
	flush, claimMany, settleMany          pgkit.Query
	claimManyContended                    pgkit.Query
	claimManyAlike, settleManyAlike       pgkit.Query
	readMany                              pgkit.Query
	takeOver, quarantine                  pgkit.Query
	renew, lockTimeout                    pgkit.Query
	settle, settleTx, settled             pgkit.Query
	lock, cancelAbsent, cancel            pgkit.Query
	setLockTimeout                        pgkit.Query
	sweep, stats, size                    pgkit.Query
	distributed                           bool
	list, listOpaque, listChildren        pgkit.Query
	auditLog                              pgkit.Query
	resolve, forget, deferral             pgkit.Query
	noteAttention, dropAttention          pgkit.Query
	listAttention, countAttention         pgkit.Query
	sweepAttention, findAttention         pgkit.Query
	pruneAudit                            pgkit.Query
	once, onceOrFail, onceRecord          pgkit.Query
	onceConfirm, boundLocks, unboundLocks pgkit.Query
	partitions, dropAnswers               pgkit.Query
	detachedPartitions                    pgkit.Query
	noteDetached, forgetDetached          pgkit.Query
	ownsAnswers, clock                    pgkit.Query
	intentBegin, intent                   pgkit.Query
	intentDone, intentsPending            pgkit.Query
	intentsSweep                          pgkit.Query
	ended, expect                         pgkit.Query
	channel, notify                       pgkit.Query
	sweepKeys, answerKeys                 pgkit.Query
	claimRows                             *pgkit.RowsQuery // claimMany
	// of Config.Answers
	settlePartitioned, settleTxPartitioned pgkit.Query
	readPartitioned, readManyPartitioned   pgkit.Query
	settleManyPartitioned                  pgkit.Query
}

var (
	queriesBySchema     = pgkit.BySchema[*queries]{Load: loadQueries}
	distributedBySchema = pgkit.BySchema[*queries]{Load: loadDistributedQueries}
)

func loadQueries(schema string) (*queries, error) {
	q := new(queries)
	return q, pgkit.LoadQueries(queryFiles, schema, q.ofKeys(), q.ofOperators(), q.ofOnces(), q.ofAnswers())
}

// loadDistributedQueries loads the forms for distributed tables. Once and Barrier, which do not
// know the tables, send statements that are the same in both forms.
func loadDistributedQueries(schema string) (*queries, error) {
	q := &queries{distributed: true}
	err := pgkit.LoadDistributedQueries(queryFiles, schema, q.ofKeys(), q.ofOperators(), q.ofOnces(), q.ofAnswers(), q.ofDistributed())
	if err == nil {
		q.claimRows, err = q.claimMany.Rows()
	}
	return q, err
}

// ofDistributed are for distributed tables alone.
func (q *queries) ofDistributed() map[string]*pgkit.Query {
	return map[string]*pgkit.Query{
		"sweep_keys":  &q.sweepKeys,
		"answer_keys": &q.answerKeys,
	}
}

// ofKeys are for claims, settlements, undos and waiting.
func (q *queries) ofKeys() map[string]*pgkit.Query {
	return map[string]*pgkit.Query{
		"claim":                &q.claim,
		"flush":                &q.flush,
		"claim_many":           &q.claimMany,
		"claim_many_contended": &q.claimManyContended,
		"claim_many_alike":     &q.claimManyAlike,
		"settle_many_alike":    &q.settleManyAlike,
		"too_old":              &q.tooOld,
		"read":                 &q.read,
		"read_many":            &q.readMany,
		"confirm":              &q.confirm,
		"take_over":            &q.takeOver,
		"quarantine":           &q.quarantine,
		"renew":                &q.renew,
		"lock_timeout":         &q.lockTimeout,
		"settle":               &q.settle,
		"settle_many":          &q.settleMany,
		"settle_tx":            &q.settleTx,
		"settled":              &q.settled,
		"lock":                 &q.lock,
		"cancel_absent":        &q.cancelAbsent,
		"cancel":               &q.cancel,
		"set_lock_timeout":     &q.setLockTimeout,
		"sweep":                &q.sweep,
		"ended":                &q.ended,
		"expect":               &q.expect,
		"channel":              &q.channel,
		"notify":               &q.notify,
	}
}

// ofOperators are the queries that serve operators and their dashboards.
func (q *queries) ofOperators() map[string]*pgkit.Query {
	return map[string]*pgkit.Query{
		"stats":           &q.stats,
		"size":            &q.size,
		"list":            &q.list,
		"list_opaque":     &q.listOpaque,
		"list_children":   &q.listChildren,
		"audit_log":       &q.auditLog,
		"note_attention":  &q.noteAttention,
		"drop_attention":  &q.dropAttention,
		"list_attention":  &q.listAttention,
		"count_attention": &q.countAttention,
		"sweep_attention": &q.sweepAttention,
		"find_attention":  &q.findAttention,
		"resolve":         &q.resolve,
		"forget":          &q.forget,
		"defer":           &q.deferral,
		"prune_audit":     &q.pruneAudit,
	}
}

// ofOnces are for Once and for intents.
func (q *queries) ofOnces() map[string]*pgkit.Query {
	return map[string]*pgkit.Query{
		"once":            &q.once,
		"once_or_fail":    &q.onceOrFail,
		"once_record":     &q.onceRecord,
		"once_confirm":    &q.onceConfirm,
		"bound_locks":     &q.boundLocks,
		"unbound_locks":   &q.unboundLocks,
		"intent_begin":    &q.intentBegin,
		"intent":          &q.intent,
		"intent_done":     &q.intentDone,
		"intents_pending": &q.intentsPending,
		"intents_sweep":   &q.intentsSweep,
	}
}

// ofAnswers are for answers in partitions, and their upkeep.
func (q *queries) ofAnswers() map[string]*pgkit.Query {
	return map[string]*pgkit.Query{
		"partitions":              &q.partitions,
		"detached_partitions":     &q.detachedPartitions,
		"note_detached":           &q.noteDetached,
		"forget_detached":         &q.forgetDetached,
		"owns_answers":            &q.ownsAnswers,
		"clock":                   &q.clock,
		"drop_answers":            &q.dropAnswers,
		"settle_partitioned":      &q.settlePartitioned,
		"settle_many_partitioned": &q.settleManyPartitioned,
		"settle_tx_partitioned":   &q.settleTxPartitioned,
		"read_partitioned":        &q.readPartitioned,
		"read_many_partitioned":   &q.readManyPartitioned,
	}
}
