package pgjournal

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// A node of a distributed table locks a row only by its key. A statement over all nodes cannot rank
// the sagas of several plans, and cannot change the leases.

// claimableByPlan is claimable.sql for distributed tables, which are asked for each plan.
func (j *Journal) claimableByPlan(ctx context.Context, req journal.ClaimRequest, passed []pgtype.UUID) ([]candidate, error) {
	type ranked struct {
		candidate

		place          int // in its plan
		since, created pgtype.Timestamptz
	}
	var all []ranked
	for _, plan := range req.Plans {
		st := j.query.Claimable.Bind(pgx.NamedArgs{
			"engine": toUUID(req.Engine), "plan": plan[:], "deferred": slices.Contains(req.Deferred, plan),
			"limit": int64(min(req.PerPlan, req.Limit)), "backoff": req.Backoff, "passed": passed,
		})
		found, err := pgkit.All(ctx, j.db.Pool, st, func(row pgx.CollectableRow) (c ranked, err error) {
			return c, row.Scan(&c.hasLease, &c.id, &c.revision, &c.since, &c.created)
		})
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].place = i
		}
		all = append(all, found...)
	}
	// Rows come in order from each plan.
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.place, b.place), a.since.Time.Compare(b.since.Time), a.created.Time.Compare(b.created.Time))
	})
	first := make([]candidate, min(len(all), req.Limit))
	for i := range first {
		first[i] = all[i].candidate
	}
	return first, nil
}

// takeByKey is claim.sql for distributed tables: one statement for each saga, all in one transaction
// and one round trip. No statement waits for a lock.
func (j *Journal) takeByKey(ctx context.Context, engine journal.EngineID, ids []pgtype.UUID, revisions []int64) ([]stored, error) {
	statements := make([]pgkit.Statement, len(ids))
	for i, id := range ids {
		statements[i] = j.query.Claim.Bind(pgx.NamedArgs{"engine": toUUID(engine), "id": id, "revision": revisions[i]})
	}
	return pgkit.RetryConflict(ctx, func() ([]stored, error) {
		return pgkit.RowsTogether(ctx, j.db.Writer, statements, j.sealer.scanClaimed)
	})
}

// enroll gives an engine of distributed tables its first lease.
func (j *Journal) enroll(ctx context.Context, engine journal.EngineID, lease time.Duration) (bool, error) {
	st := j.query.Enroll.Bind(pgx.NamedArgs{"engine": toUUID(engine), "lease": lease})
	_, ok, err := pgkit.Row(ctx, j.db.Writer, st, pgx.RowTo[bool])
	return ok, err
}

// A longLease is the lease of an engine that lasts for longer than Lease, which the engine asked for.
type longLease struct {
	Engine pgtype.UUID
	Lease  pgtype.Interval
}

// sweepLeases is sweep_engines.sql for distributed tables. It asks which engines own sagas before
// it changes the leases, which are on every node.
func (j *Journal) sweepLeases(ctx context.Context) (int64, error) {
	owners, err := pgkit.All(ctx, j.db.Pool, j.query.Owners.Bind(nil), pgx.RowTo[pgtype.UUID])
	if err != nil {
		return 0, err
	}
	if owners == nil {
		owners = []pgtype.UUID{}
	}
	long, err := pgkit.All(ctx, j.db.Pool, j.query.LongLeases.Bind(nil), pgx.RowToStructByPos[longLease])
	if err != nil {
		return 0, err
	}
	for _, l := range long {
		if _, err := pgkit.Exec(ctx, j.db.Writer, j.query.BoundLease.Bind(pgx.NamedArgs{"engine": l.Engine, "lease": l.Lease})); err != nil {
			return 0, err
		}
	}
	n, err := pgkit.Exec(ctx, j.db.Writer, j.query.SweepEngines.Bind(pgx.NamedArgs{"age": forgotten, "owners": owners}))
	if err == nil {
		err = j.sweepSignals(ctx)
	}
	if err != nil || len(owners) == 0 {
		return n, err
	}
	return pgkit.Exec(ctx, j.db.Writer, j.query.EndLeases.Bind(pgx.NamedArgs{"owners": owners}))
}

// sweepSignals deletes old signals without a saga.
func (j *Journal) sweepSignals(ctx context.Context) error {
	if _, err := pgkit.Exec(ctx, j.db.Writer, j.query.SweepSignals.Bind(nil)); err != nil {
		return err
	}
	_, err := pgkit.Exec(ctx, j.db.Writer, j.query.KeepSignals.Bind(pgx.NamedArgs{"retention": journal.SignalRetention}))
	return err
}
