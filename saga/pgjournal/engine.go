package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/saga/journal"
)

// Plan implements [journal.Journal]. It takes one statement for a new plan, and two for a plan
// that is stored already.
func (j *Journal) Plan(ctx context.Context, plan journal.PlanRecord) (journal.PlanRecord, error) {
	if err := checkPlan(plan.Name, plan.Version); err != nil {
		return journal.PlanRecord{}, err
	}
	lines := plan.Lines
	if lines == nil {
		lines = []string{}
	}
	st := j.query.Plan.Bind(pgx.NamedArgs{"name": plan.Name, "version": int32(plan.Version), "hash": plan.Hash[:], "lines": lines}) //nolint:gosec // checked above
	_, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		_, ok, err := pgkit.Row(ctx, j.db.Writer, st, pgx.RowTo[bool])
		return ok, err
	})
	if err != nil {
		return journal.PlanRecord{}, wrap("plan", j.whyRefused(ctx, err))
	}
	found, err := j.readPlan(ctx, plan.Name, plan.Version)
	return found, wrap("plan", err)
}

// whyRefused returns what is wrong with the tables, if that is why the server refused the first statement of an engine.
func (j *Journal) whyRefused(ctx context.Context, err error) error {
	if !isRefused(err) {
		return err
	}
	found := j.db.Check(ctx)
	if errors.As(found, new(*component.SchemaError)) || errors.Is(found, ErrPrivilege) {
		return errtext.Mark(found, journal.ErrRefused)
	}
	return err
}

// ReadPlan implements [journal.OperatorJournal].
func (j *Journal) ReadPlan(ctx context.Context, name string, version int) (journal.PlanRecord, error) {
	if err := checkPlan(name, version); err != nil {
		return journal.PlanRecord{}, err
	}
	found, err := j.readPlan(ctx, name, version)
	return found, wrap("read plan", notFound(err))
}

func (j *Journal) readPlan(ctx context.Context, name string, version int) (journal.PlanRecord, error) {
	st := j.query.ReadPlan.Bind(pgx.NamedArgs{"name": name, "version": int32(version)}) //nolint:gosec // checkPlan
	return pgkit.One(ctx, j.db.Pool, st, scanPlan)
}

func scanPlan(row pgx.CollectableRow) (journal.PlanRecord, error) {
	var found journal.PlanRecord
	var version int32
	var hash []byte
	err := row.Scan(&found.Name, &version, &hash, &found.Lines)
	found.Version = int(version)
	if err == nil && (copy(found.Hash[:], hash) != len(found.Hash) || len(hash) != len(found.Hash)) {
		err = fmt.Errorf("%w: hash of %d bytes", journal.ErrCorrupt, len(hash))
	}
	return found, err
}

// Heartbeat implements [journal.Journal], in one statement for all sagas of the engine.
func (j *Journal) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	if engine.IsZero() || lease < time.Microsecond || lease > longest {
		return fmt.Errorf("%w: engine %v, lease %v", ErrArgument, engine, lease)
	}
	st := j.query.Heartbeat.Bind(pgx.NamedArgs{"engine": toUUID(engine), "lease": lease})
	ok, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		_, ok, err := pgkit.Row(ctx, j.db.Writer, st, pgx.RowTo[bool])
		if err == nil && !ok && j.cfg.Distributed {
			return j.enroll(ctx, engine, lease)
		}
		return ok, err
	})
	if err == nil && !ok {
		err = journal.ErrLeaseLost
	}
	return wrap("heartbeat", err)
}

// Leave implements [journal.Journal], in one statement.
func (j *Journal) Leave(ctx context.Context, engine journal.EngineID) error {
	st := j.query.Leave.Bind(pgx.NamedArgs{"engine": toUUID(engine)})
	_, err := pgkit.RetryConflict(ctx, func() (int64, error) { return pgkit.Exec(ctx, j.db.Writer, st) })
	return wrap("leave", err)
}
