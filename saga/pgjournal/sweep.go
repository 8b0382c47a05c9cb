package pgjournal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// forgotten is how long after its end a lease is swept.
const forgotten = 24 * time.Hour

// auditBatch is how many lines of the audit log one statement deletes.
const auditBatch = 1000

// Sweep implements [saga.Journal], in one statement and one commit for sagas, and
// once they are fewer than limit another for leases: a limit of a thousand or so
// keeps both short. It passes over sagas that a transaction holds, so that sweeps
// in several processes share the work.
func (j *Journal) Sweep(ctx context.Context, limit int) (int, error) {
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	st := j.query.sweep.Bind(pgx.NamedArgs{"limit": int64(limit)})
	n, err := pgkit.RetryConflict(ctx, func() (int64, error) {
		n, _, err := pgkit.Row(ctx, j.writer, st, pgx.RowTo[int64])
		return n, err
	})
	if err == nil && int(n) < limit {
		st := j.query.sweepEngines.Bind(pgx.NamedArgs{"age": forgotten})
		_, err = pgkit.RetryConflict(ctx, func() (int64, error) { return pgkit.Exec(ctx, j.writer, st) })
	}
	return int(n), wrap("sweep", err)
}

// Stats implements [saga.Journal]. It reads the whole table.
func (j *Journal) Stats(ctx context.Context) (saga.Stats, error) {
	stats := saga.Stats{ByStatus: make(map[saga.Status]int64)}
	rows, err := j.pool.Query(ctx, j.query.stats.SQL())
	if err != nil {
		return saga.Stats{}, wrap("stats", err)
	}
	var number int16
	var count, orphans, parked int64
	var age time.Duration
	_, err = pgx.ForEachRow(rows, []any{&number, &count, &orphans, &parked, &age}, func() error {
		status := saga.Status(number) //nolint:gosec // this package writes 1 to 6
		stats.ByStatus[status] = count
		stats.Orphans += orphans
		stats.Parked += parked
		if !status.Final() {
			stats.OldestUnfinished = max(stats.OldestUnfinished, age)
		}
		return nil
	})
	if err != nil {
		return saga.Stats{}, wrap("stats", err)
	}
	return stats, nil
}

// PruneAudit deletes the lines of the audit log that are older than age, in batches
// of a thousand, and returns how many it deleted, also with an error. Nothing else
// does: what is done to sagas is written down by services that cannot take it back.
// So it needs a role that owns the tables ([RolesSQL]).
//
// It returns an error wrapping [ErrArgument] if age is not positive.
func (j *Journal) PruneAudit(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > longest {
		return 0, fmt.Errorf("%w: age %v", ErrArgument, age)
	}
	st := j.query.pruneAudit.Bind(pgx.NamedArgs{"age": age, "limit": int64(auditBatch)})
	total := 0
	for {
		n, err := pgkit.RetryConflict(ctx, func() (int64, error) { return pgkit.Exec(ctx, j.writer, st) })
		total += int(n)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || n < auditBatch {
			return total, wrap("prune audit log", err)
		}
	}
}
