package pgstore

import (
	"embed"
	"slices"

	"github.com/fanonce/fanonce/server/pgkit"
)

//go:embed query/*.sql
var queryFiles embed.FS

// queries are the files of query/, ready for one schema.
type queries struct {
	claim, tooOld, read, confirm          pgkit.Query
	flush, claimMany, settleMany          pgkit.Query
	claimManyContended                    pgkit.Query
	readMany                              pgkit.Query
	takeOver, bury                        pgkit.Query
	renew, lockTimeout                    pgkit.Query
	settle, settleTx, settled             pgkit.Query
	lock, cancelAbsent, cancel            pgkit.Query
	setLockTimeout                        pgkit.Query
	sweep, stats, size                    pgkit.Query
	list, listOpaque, auditLog            pgkit.Query
	resolve, forget, deferral             pgkit.Query
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
	// of Config.Answers
	settlePartitioned, settleTxPartitioned pgkit.Query
	readPartitioned, readManyPartitioned   pgkit.Query
	settleManyPartitioned                  pgkit.Query
}

func loadQueries(schema string) (*queries, error) {
	q := new(queries)
	for _, f := range slices.Concat(q.ofKeys(), q.ofOperators(), q.ofOnces(), q.ofAnswers()) {
		query, err := pgkit.LoadQuery(queryFiles, "query/"+f.name+".sql", schema)
		if err != nil {
			return nil, err
		}
		*f.into = query
	}
	return q, nil
}

// A queryFile is the file of a query, without its folder and .sql.
type queryFile struct {
	into *pgkit.Query
	name string
}

// ofKeys are for claims, settlements, undos and waiting.
func (q *queries) ofKeys() []queryFile {
	return []queryFile{
		{&q.claim, "claim"},
		{&q.flush, "flush"},
		{&q.claimMany, "claim_many"},
		{&q.claimManyContended, "claim_many_contended"},
		{&q.tooOld, "too_old"},
		{&q.read, "read"},
		{&q.readMany, "read_many"},
		{&q.confirm, "confirm"},
		{&q.takeOver, "take_over"},
		{&q.bury, "bury"},
		{&q.renew, "renew"},
		{&q.lockTimeout, "lock_timeout"},
		{&q.settle, "settle"},
		{&q.settleMany, "settle_many"},
		{&q.settleTx, "settle_tx"},
		{&q.settled, "settled"},
		{&q.lock, "lock"},
		{&q.cancelAbsent, "cancel_absent"},
		{&q.cancel, "cancel"},
		{&q.setLockTimeout, "set_lock_timeout"},
		{&q.sweep, "sweep"},
		{&q.ended, "ended"},
		{&q.expect, "expect"},
		{&q.channel, "channel"},
		{&q.notify, "notify"},
	}
}

// ofOperators are for people, and for what they look at.
func (q *queries) ofOperators() []queryFile {
	return []queryFile{
		{&q.stats, "stats"},
		{&q.size, "size"},
		{&q.list, "list"},
		{&q.listOpaque, "list_opaque"},
		{&q.auditLog, "audit_log"},
		{&q.resolve, "resolve"},
		{&q.forget, "forget"},
		{&q.deferral, "defer"},
		{&q.pruneAudit, "prune_audit"},
	}
}

// ofOnces are for Once and for intents.
func (q *queries) ofOnces() []queryFile {
	return []queryFile{
		{&q.once, "once"},
		{&q.onceOrFail, "once_or_fail"},
		{&q.onceRecord, "once_record"},
		{&q.onceConfirm, "once_confirm"},
		{&q.boundLocks, "bound_locks"},
		{&q.unboundLocks, "unbound_locks"},
		{&q.intentBegin, "intent_begin"},
		{&q.intent, "intent"},
		{&q.intentDone, "intent_done"},
		{&q.intentsPending, "intents_pending"},
		{&q.intentsSweep, "intents_sweep"},
	}
}

// ofAnswers are for answers in partitions, and their upkeep.
func (q *queries) ofAnswers() []queryFile {
	return []queryFile{
		{&q.partitions, "partitions"},
		{&q.detachedPartitions, "detached_partitions"},
		{&q.noteDetached, "note_detached"},
		{&q.forgetDetached, "forget_detached"},
		{&q.ownsAnswers, "owns_answers"},
		{&q.clock, "clock"},
		{&q.dropAnswers, "drop_answers"},
		{&q.settlePartitioned, "settle_partitioned"},
		{&q.settleManyPartitioned, "settle_many_partitioned"},
		{&q.settleTxPartitioned, "settle_tx_partitioned"},
		{&q.readPartitioned, "read_partitioned"},
		{&q.readManyPartitioned, "read_many_partitioned"},
	}
}
