package memjournal

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// List implements [journal.Journal].
func (j *Journal) List(ctx context.Context, req journal.ListRequest) ([]journal.Record, error) {
	switch {
	case req.Limit <= 0:
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, req.Limit)
	case req.Engine.IsZero() != req.Deferred:
		return nil, fmt.Errorf("%w: a list needs an engine, or Deferred", ErrArgument)
	}
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	var found []journal.Record
	for _, r := range j.sagas {
		if r.Engine == req.Engine && r.Status.Active() && (r.Deferred != nil) == req.Deferred && compare(cursor(r), req.After) > 0 {
			found = append(found, strip(snapshot(r, now)))
		}
	}
	slices.SortFunc(found, func(a, b journal.Record) int { return compare(cursor(a), cursor(b)) })
	return found[:min(len(found), req.Limit)], nil
}

// strip returns r without the fields that may be large.
func strip(r journal.Record) journal.Record {
	r.Input, r.Result = nil, nil
	for i := range r.Entries {
		r.Entries[i].Result = nil
	}
	return r
}

func cursor(r journal.Record) journal.Cursor { return journal.Cursor{CreatedAt: r.CreatedAt, ID: r.ID} }

func compare(a, b journal.Cursor) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// Change implements [journal.OperatorJournal].
func (j *Journal) Change(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
	if err := checkChange(c); err != nil {
		return journal.Record{}, false, err
	}
	if err := j.lock(ctx); err != nil {
		return journal.Record{}, false, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	r, ok := j.sagas[c.ID]
	if !ok {
		return journal.Record{}, false, journal.ErrNotFound
	}
	if r.Revision != c.Revision {
		return snapshot(r, now), false, nil
	}
	if c.Wake {
		return j.wake(r, c, now)
	}
	if c.Plan != (journal.PlanHash{}) {
		return j.changePlan(r, c, now)
	}
	from := r.Status
	r.Entries = mergeEntries(r.Entries, c.Entries)
	r.Cancel = r.Cancel || c.Cancel
	r.Engine, r.RecoveryAttempts, r.WakeAt, r.StuckOn, r.Deferred = journal.EngineID{}, 0, time.Time{}, nil, nil
	if c.Status.Active() {
		r.WakeAt = now
	}
	r.ResumedAt = now
	if r.Fence > 0 { // at fence 0 the saga never had an owner, and its first owner must know that
		r.Fence++
	}
	r.Revision++
	r.Wakes = 0
	delete(j.slept, r.ID)
	if c.Deadline > 0 {
		r.DeadlineAt = now.Add(c.Deadline)
	}
	r = move(r, c.Status, c.Keep, now)
	j.sagas[c.ID] = r
	j.log(journal.AuditEntry{At: now, ID: c.ID, Audit: c.By, From: from, To: r.Status, Fence: r.Fence})
	return snapshot(r, now), true, nil
}

func checkChange(c journal.Change) error {
	switch {
	case c.Wake && (c.Status != 0 || c.Cancel || c.Deadline != 0 || c.Keep != 0):
		return fmt.Errorf("%w: Wake with more than Entries", ErrArgument)
	case c.Plan != journal.PlanHash{} && (c.Wake || len(c.Entries) > 0 || c.Status != 0 || c.Cancel || c.Deadline != 0 || c.Keep != 0):
		return fmt.Errorf("%w: Plan with another field", ErrArgument)
	case !c.Wake && c.Plan == journal.PlanHash{} && (c.Status < journal.Running || c.Status > journal.Abandoned):
		return fmt.Errorf("%w: Status %d", ErrArgument, c.Status)
	}
	return nil
}

// wake makes the saga retry a waiting call at once. The journal is locked.
func (j *Journal) wake(r journal.Record, c journal.Change, now time.Time) (journal.Record, bool, error) {
	if !r.Status.Active() {
		return snapshot(r, now), false, nil
	}
	r.Entries = mergeEntries(r.Entries, c.Entries)
	r.Revision++
	r.Wakes++
	if !r.Engine.IsZero() || r.WakeAt.After(now) {
		r.WakeAt = now
	}
	j.sagas[c.ID] = r
	j.log(journal.AuditEntry{At: now, ID: c.ID, Audit: c.By, From: r.Status, To: r.Status, Fence: r.Fence})
	return snapshot(r, now), true, nil
}

// changePlan moves the saga to another plan. The journal is locked.
func (j *Journal) changePlan(r journal.Record, c journal.Change, now time.Time) (journal.Record, bool, error) {
	r.Plan, r.Version = c.Plan, c.Version
	if r.Status.Active() {
		r.StuckOn, r.Deferred = nil, nil
		if r.Fence > 0 {
			r.WakeAt = now
		}
	}
	if r.Fence > 0 {
		r.Fence++
	}
	r.Engine, r.RecoveryAttempts, r.ResumedAt = journal.EngineID{}, 0, now
	r.Revision++
	r.Wakes = 0
	delete(j.slept, r.ID)
	j.sagas[c.ID] = r
	j.log(journal.AuditEntry{At: now, ID: c.ID, Audit: c.By, From: r.Status, To: r.Status, Fence: r.Fence})
	return snapshot(r, now), true, nil
}

// keptEntries is how many entries the audit log keeps at least: the youngest ones.
const keptEntries = 10_000

// log adds an entry to the audit log. The journal is locked.
func (j *Journal) log(e journal.AuditEntry) {
	e.Number = 1
	if n := len(j.audit); n > 0 {
		e.Number += j.audit[n-1].Number
	}
	e.Revision = 0
	if len(j.audit) == 2*keptEntries {
		j.audit = slices.Clone(j.audit[keptEntries:])
	}
	j.audit = append(j.audit, e)
}

// ReadPlan implements [journal.OperatorJournal].
func (j *Journal) ReadPlan(ctx context.Context, name string, version int) (journal.PlanRecord, error) {
	if err := j.lock(ctx); err != nil {
		return journal.PlanRecord{}, err
	}
	defer j.mu.Unlock()
	plan, ok := j.plans[planID{name, version}]
	if !ok {
		return journal.PlanRecord{}, journal.ErrNotFound
	}
	plan.Lines = slices.Clone(plan.Lines)
	return plan, nil
}
