package pgjournal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// forgotten is the time from the end of a lease to its sweep.
const forgotten = 24 * time.Hour

// signalBatch is how many old signals a sweep looks at.
const signalBatch = 1000

// auditBatch is how many lines of the audit log one statement deletes.
const auditBatch = 1000

// Sweep implements [journal.Journal], in one statement and one commit for sagas. If it deletes
// fewer sagas than limit, it takes another statement for leases and old signals. A limit of about a thousand
// keeps both short. It passes over sagas that a transaction holds, so that sweeps in several
// processes share the work.
func (j *Journal) Sweep(ctx context.Context, limit int) (int, error) {
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	args := pgx.NamedArgs{"limit": int64(limit)}
	if j.cfg.Distributed { // it waits for locks
		args["lock_timeout"] = j.db.LockTimeout
	}
	st := j.query.Sweep.Bind(args)
	n, err := pgkit.RetryConflict(ctx, func() (int64, error) {
		n, _, err := pgkit.Row(ctx, j.db.Writer, st, pgx.RowTo[int64])
		return n, err
	})
	if err == nil && int(n) < limit {
		_, err = pgkit.RetryConflict(ctx, func() (int64, error) {
			if j.cfg.Distributed {
				return j.sweepLeases(ctx)
			}
			return pgkit.Exec(ctx, j.db.Writer, j.query.SweepEngines.Bind(pgx.NamedArgs{
				"age": forgotten, "signals": int64(signalBatch), "retention": journal.SignalRetention,
			}))
		})
	}
	if err == nil {
		err = j.db.FindShards(ctx)
	}
	return int(n), wrap("sweep", err)
}

// PruneAudit deletes the lines of the audit log that are older than age, in batches of a
// thousand, and returns how many it deleted, also with an error. No other method deletes lines:
// services write the audit log and may not delete from it. So PruneAudit needs a role that owns
// the tables ([RolesSQL]).
//
// It returns an error wrapping [ErrArgument] if age is not positive.
func (j *Journal) PruneAudit(ctx context.Context, age time.Duration) (int, error) {
	if age <= 0 || age > longest {
		return 0, fmt.Errorf("%w: age %v, must be positive and at most %v", ErrArgument, age, longest)
	}
	st := j.query.PruneAudit.Bind(pgx.NamedArgs{"age": age, "limit": int64(auditBatch)})
	n, err := pgkit.ExecInBatches(ctx, j.db.Writer, st, auditBatch)
	return n, wrap("prune audit log", err)
}
