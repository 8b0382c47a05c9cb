package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// List implements [journal.Journal]. It reads the sagas of one engine by their index.
func (j *Journal) List(ctx context.Context, req journal.ListRequest) ([]journal.Record, error) {
	if err := checkLimit(req.Limit); err != nil {
		return nil, err
	}
	engine := req.Engine
	switch {
	case engine.IsZero() != req.Deferred:
		return nil, fmt.Errorf("%w: a list needs an engine, or Deferred", ErrArgument)
	case req.Deferred:
		engine = deferredEngine
	}
	st := j.query.List.Bind(pgx.NamedArgs{
		"engine": toUUID(engine), "after_created_at": lowerBound(req.After.CreatedAt), "after_id": toUUID(req.After.ID), "limit": int64(req.Limit),
	})
	listed, err := pgkit.All(ctx, j.db.Pool, st, j.sealer.scanListed)
	if err != nil {
		return nil, wrap("list", err)
	}
	records := make([]journal.Record, len(listed))
	for i, s := range listed {
		records[i] = dropLarge(s.Record)
	}
	return records, nil
}

// dropLarge returns r without the fields that may be large.
func dropLarge(r journal.Record) journal.Record {
	r.Input, r.Result = nil, nil
	for i := range r.Entries {
		r.Entries[i].Result = nil
	}
	return r
}

// lowerBound returns the lower bound of a page's times. For the first page the bound is before every
// time.
func lowerBound(t time.Time) pgtype.Timestamptz {
	switch {
	case t.IsZero():
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	case t.Equal(endOfTime):
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	}
	return toTimestamp(t)
}

// changeTime is how long the server works for a change at most, beside the wait for a lock.
const changeTime = 10 * time.Second

// Change implements [journal.OperatorJournal]. A change and its line in the audit log take one
// statement. The server itself ends it 10 s after Config.LockTimeout, or earlier if ctx ends earlier.
func (j *Journal) Change(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
	if err := checkChange(c); err != nil {
		return journal.Record{}, false, err
	}
	st, err := j.changing(c)
	if err != nil {
		return journal.Record{}, false, wrap("change", err)
	}
	type changed struct {
		stored
		ok bool
	}
	got, err := pgkit.RetryConflict(ctx, func() (changed, error) {
		limit := pgkit.StatementLimit(ctx, j.cfg.LockTimeout+changeTime)
		settings := j.query.ChangeSettings.Bind(pgx.NamedArgs{"statement_timeout": pgkit.Milliseconds(limit)})
		found, err := pgkit.RowsUnder(ctx, j.db.Writer, settings, st, j.sealer.scanStored)
		if err != nil || len(found) == 0 {
			return changed{}, pgkit.TooSlow(err, limit)
		}
		return changed{found[0], true}, nil
	})
	switch {
	case err != nil:
		return journal.Record{}, false, wrap("change", err)
	case !got.ok:
		r, err := j.Read(ctx, c.ID)
		return r, false, err
	}
	r, err := j.addMissing(ctx, got.stored)
	if err != nil { // the saga is changed even so
		return journal.Record{}, false, wrap("change", errors.Join(journal.ErrFateUnknown, err))
	}
	return r, true, nil
}

// changing returns the statement that does what c says, with its content sealed.
func (j *Journal) changing(c journal.Change) (pgkit.Statement, error) {
	revision := c.Revision + 1
	if c.Wake { // the owner's next write may name the same revision for its own large results
		revision = inline
	}
	log, large, err := j.sealer.logOf(c.ID, c.Entries, revision)
	if err != nil {
		return pgkit.Statement{}, err
	}
	reason, err := j.sealer.sealReason(c.ID, c.By)
	if err != nil {
		return pgkit.Statement{}, err
	}
	if c.Status.Final() {
		log = endLog(log)
	}
	args := pgx.NamedArgs{
		"id": toUUID(c.ID), "revision": c.Revision, "entries": log,
		"verb": string(c.By.Verb), "step": c.By.Step, "actor": c.By.Actor, "reason": reason,
		"lock_timeout": j.db.LockTimeout,
	}
	if c.Wake {
		return j.query.Wake.Bind(args), nil
	}
	if c.Plan != (journal.PlanHash{}) {
		delete(args, "entries")
		args["plan"], args["version"] = c.Plan[:], int32(c.Version) //nolint:gosec // checkChange bounds it
		return j.query.ChangePlan.Bind(args), nil
	}
	if large == nil {
		large = [][]byte{}
	}
	args["large"], args["status"], args["cancel"], args["deadline"], args["keep"] = large, int16(c.Status), c.Cancel, c.Deadline, c.Keep
	return j.query.Change.Bind(args), nil
}

func (s sealer) scanAuditEntry(row pgx.CollectableRow) (e journal.AuditEntry, err error) {
	var id pgtype.UUID
	var verb string
	var from, to int16
	var at pgtype.Timestamptz
	if err := row.Scan(&e.Number, &at, &id, &verb, &e.Step, &e.Actor, &e.Reason, &from, &to, &e.Fence); err != nil {
		return e, err
	}
	var found damage
	e.At, e.ID, e.Verb = fromTimestamp(at), id.Bytes, journal.Verb(verb)
	for _, status := range []struct {
		column string
		number int16
		into   *journal.Status
	}{{"from_status", from, &e.From}, {"to_status", to, &e.To}} {
		if status.number < int16(journal.Running) || status.number > int16(journal.Abandoned) {
			found.note(fmt.Errorf("%s %d", status.column, status.number))
			continue
		}
		*status.into = journal.Status(status.number)
	}
	if at.InfinityModifier != pgtype.Finite {
		found.note(fmt.Errorf("at is %v", at.InfinityModifier))
	}
	if e.Reason, err = s.openReason(e); err != nil {
		found.note(fmt.Errorf("reason %w", err))
	}
	e.Corrupt = found.toError(e.ID)
	return e, nil
}
