package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Plan implements [saga.Journal], in one statement for a new plan, and two for one
// that is there.
func (j *Journal) Plan(ctx context.Context, plan saga.PlanRecord) (saga.PlanRecord, error) {
	if plan.Version < 0 || plan.Version > math.MaxInt32 {
		return saga.PlanRecord{}, fmt.Errorf("%w: Version %d", ErrArgument, plan.Version)
	}
	if err := checkText("Name", plan.Name); err != nil {
		return saga.PlanRecord{}, err
	}
	lines := plan.Lines
	if lines == nil {
		lines = []string{}
	}
	st := j.query.plan.Bind(pgx.NamedArgs{"name": plan.Name, "version": int32(plan.Version), "hash": plan.Hash[:], "lines": lines}) //nolint:gosec // checked above
	_, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		_, ok, err := pgkit.Row(ctx, j.writer, st, pgx.RowTo[bool])
		return ok, err
	})
	if err != nil {
		return saga.PlanRecord{}, wrap("plan", err)
	}
	read := j.query.readPlan.Bind(pgx.NamedArgs{"name": plan.Name, "version": int32(plan.Version)}) //nolint:gosec // checked above
	found, err := pgkit.One(ctx, j.pool, read, func(row pgx.CollectableRow) (saga.PlanRecord, error) {
		found := saga.PlanRecord{Name: plan.Name, Version: plan.Version}
		var hash []byte
		err := row.Scan(&hash, &found.Lines)
		if err == nil && (copy(found.Hash[:], hash) != len(found.Hash) || len(hash) != len(found.Hash)) {
			err = fmt.Errorf("%w: hash of %d bytes", saga.ErrCorrupt, len(hash))
		}
		return found, err
	})
	return found, wrap("plan", err)
}

// Beat implements [saga.Journal], in one statement for all sagas of the engine.
func (j *Journal) Beat(ctx context.Context, engine saga.EngineID, lease time.Duration) error {
	if engine.IsZero() || lease < time.Microsecond || lease > longest {
		return fmt.Errorf("%w: engine %v, lease %v", ErrArgument, engine, lease)
	}
	st := j.query.beat.Bind(pgx.NamedArgs{"engine": uuid(engine), "lease": lease})
	ok, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		_, ok, err := pgkit.Row(ctx, j.writer, st, pgx.RowTo[bool])
		return ok, err
	})
	if err == nil && !ok {
		err = saga.ErrLeaseLost
	}
	return wrap("beat", err)
}

// Leave implements [saga.Journal], in one statement.
func (j *Journal) Leave(ctx context.Context, engine saga.EngineID) error {
	st := j.query.leave.Bind(pgx.NamedArgs{"engine": uuid(engine)})
	_, err := pgkit.RetryConflict(ctx, func() (int64, error) { return pgkit.Exec(ctx, j.writer, st) })
	return wrap("leave", err)
}

// Claim implements [saga.Journal]: one statement where there are orphans, and two
// that write nothing where there are none. It passes over sagas that somebody
// holds.
func (j *Journal) Claim(ctx context.Context, req saga.ClaimRequest) ([]saga.Record, error) {
	if err := checkLimit(req.Limit); err != nil {
		return nil, err
	}
	if req.Suspects < 0 {
		return nil, fmt.Errorf("%w: Suspects %d", ErrArgument, req.Suspects)
	}
	st := j.query.claim.Bind(pgx.NamedArgs{
		"engine": uuid(req.Engine), "plans": hashes(req.Plans), "parked": hashes(req.Parked),
		"limit": int64(req.Limit), "suspects": int64(req.Suspects), "suspect_deaths": int32(saga.SuspectDeaths),
	})
	claimed, err := pgkit.RetryConflict(ctx, func() ([]stored, error) {
		return pgkit.Rows(ctx, j.writer, st, scanStored)
	})
	if err != nil {
		return nil, wrap("claim", err)
	}
	if len(claimed) == 0 {
		return nil, wrap("claim", j.checkLease(ctx, req.Engine))
	}
	records, err := j.allCompleted(ctx, claimed)
	if err != nil { // they are claimed all the same
		return nil, wrap("claim", errors.Join(saga.ErrFateUnknown, err))
	}
	return records, nil
}

func hashes(plans []saga.PlanHash) [][]byte {
	all := make([][]byte, len(plans))
	for i := range plans {
		all[i] = plans[i][:]
	}
	return all
}

func (j *Journal) checkLease(ctx context.Context, engine saga.EngineID) error {
	alive, err := pgkit.One(ctx, j.pool, j.query.lease.Bind(pgx.NamedArgs{"engine": uuid(engine)}), pgx.RowTo[bool])
	if err == nil && !alive {
		err = saga.ErrLeaseLost
	}
	return err
}
