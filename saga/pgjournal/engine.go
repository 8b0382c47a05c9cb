package pgjournal

import (
	"context"
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
