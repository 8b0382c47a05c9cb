package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// List implements [saga.OperatorJournal]. It reads the unfinished sagas, or those of
// one engine, by their index; where others are asked for, the whole table.
func (j *Journal) List(ctx context.Context, req saga.ListRequest) ([]saga.Record, error) {
	if err := checkLimit(req.Limit); err != nil {
		return nil, err
	}
	if err := checkText("Name", req.Name); err != nil {
		return nil, err
	}
	statuses, final := statusesOf(req.Statuses)
	engine := uuid(req.Engine)
	engine.Valid = !req.Engine.IsZero()
	st := j.query.list.Bind(pgx.NamedArgs{
		"statuses": statuses, "damaged": slices.Contains(statuses, int16(saga.Stuck)), "any": final, "name": req.Name, "engine": engine, "orphans": req.Orphans, "parked": req.Parked,
		"after_created_at": after(req.After.CreatedAt), "after_id": uuid(req.After.ID), "limit": int64(req.Limit),
	})
	listed, err := pgkit.All(ctx, j.pool, st, j.sealer.scanStored)
	if err != nil {
		return nil, wrap("list", err)
	}
	records := make([]saga.Record, len(listed))
	for i, s := range listed {
		records[i] = bare(s.Record)
	}
	return records, nil
}

// statusesOf also tells whether a final one is among them.
func statusesOf(of []saga.Status) (numbers []int16, final bool) {
	if len(of) == 0 {
		of = []saga.Status{saga.Running, saga.Compensating, saga.Stuck}
	}
	for _, s := range of {
		numbers = append(numbers, int16(s))
		final = final || s.Final()
	}
	return numbers, final
}

// bare returns r without what may be large.
func bare(r saga.Record) saga.Record {
	r.Input, r.Result = nil, nil
	for i := range r.Entries {
		r.Entries[i].Result = nil
	}
	return r
}

// after is before every time where there is no page before.
func after(t time.Time) pgtype.Timestamptz {
	switch {
	case t.IsZero():
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	case t.Equal(endOfTime):
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	}
	return timestamp(t)
}

// Change implements [saga.OperatorJournal], in one statement if it does anything,
// with its line in the audit log.
func (j *Journal) Change(ctx context.Context, c saga.Change) (saga.Record, bool, error) {
	if err := checkChange(c); err != nil {
		return saga.Record{}, false, err
	}
	st, err := j.changing(c)
	if err != nil {
		return saga.Record{}, false, wrap("change", err)
	}
	type changed struct {
		stored
		ok bool
	}
	got, err := pgkit.RetryConflict(ctx, func() (changed, error) {
		s, ok, err := pgkit.Row(ctx, j.writer, st, j.sealer.scanStored)
		return changed{s, ok}, err
	})
	switch {
	case err != nil:
		return saga.Record{}, false, wrap("change", err)
	case !got.ok:
		r, err := j.Read(ctx, c.ID)
		return r, false, err
	}
	r, err := j.completed(ctx, got.stored)
	if err != nil { // it is changed all the same
		return saga.Record{}, false, wrap("change", errors.Join(saga.ErrFateUnknown, err))
	}
	return r, true, nil
}

// changing returns the statement that does what c says, with its content sealed.
func (j *Journal) changing(c saga.Change) (pgkit.Statement, error) {
	log, large, err := j.sealer.logOf(c.ID, c.Entries, c.Revision+1)
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
	if large == nil {
		large = [][]byte{}
	}
	args := pgx.NamedArgs{
		"id": uuid(c.ID), "revision": c.Revision, "entries": log, "large": large,
		"verb": string(c.By.Verb), "step": c.By.Step, "actor": c.By.Actor, "reason": reason,
		"lock_timeout": j.lockTimeout,
	}
	if c.Wake {
		return j.query.wake.Bind(args), nil
	}
	args["status"], args["cancel"], args["deadline"], args["keep"] = int16(c.Status), c.Cancel, c.Deadline, c.Keep
	return j.query.change.Bind(args), nil
}

// AuditLog implements [saga.OperatorJournal].
func (j *Journal) AuditLog(ctx context.Context, id saga.ID, limit int) ([]saga.AuditEntry, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	of := uuid(id)
	of.Valid = id != saga.ID{}
	st := j.query.auditLog.Bind(pgx.NamedArgs{"saga": of, "limit": int64(limit)})
	log, err := pgkit.All(ctx, j.pool, st, j.sealer.scanAuditEntry)
	return log, wrap("audit log", err)
}

func (s sealer) scanAuditEntry(row pgx.CollectableRow) (e saga.AuditEntry, err error) {
	var id pgtype.UUID
	var verb string
	var from, to int16
	var at pgtype.Timestamptz
	if err := row.Scan(&at, &id, &verb, &e.Step, &e.Actor, &e.Reason, &from, &to, &e.Fence); err != nil {
		return e, err
	}
	var found damage
	e.At, e.ID, e.Verb = fromTimestamp(at), id.Bytes, saga.Verb(verb)
	for _, status := range []struct {
		column string
		number int16
		into   *saga.Status
	}{{"from_status", from, &e.From}, {"to_status", to, &e.To}} {
		if status.number < int16(saga.Running) || status.number > int16(saga.Abandoned) {
			found.note(fmt.Errorf("%s %d", status.column, status.number))
			continue
		}
		*status.into = saga.Status(status.number)
	}
	if at.InfinityModifier != pgtype.Finite {
		found.note(fmt.Errorf("at is %v", at.InfinityModifier))
	}
	if e.Reason, err = s.openReason(e); err != nil {
		found.note(fmt.Errorf("reason %w", err))
	}
	e.Corrupt = found.of(e.ID)
	return e, nil
}
