package memjournal

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga"
)

// List implements [saga.OperatorJournal].
func (j *Journal) List(ctx context.Context, req saga.ListRequest) ([]saga.Record, error) {
	if req.Limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, req.Limit)
	}
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	var found []saga.Record
	for _, r := range j.sagas {
		if j.listed(r, req, now) {
			found = append(found, bare(shown(r, now)))
		}
	}
	slices.SortFunc(found, func(a, b saga.Record) int { return compare(cursor(a), cursor(b)) })
	return found[:min(len(found), req.Limit)], nil
}

func (j *Journal) listed(r saga.Record, req saga.ListRequest, now time.Time) bool {
	statuses := req.Statuses
	if len(statuses) == 0 {
		statuses = []saga.Status{saga.Running, saga.Compensating, saga.Stuck}
	}
	return slices.Contains(statuses, r.Status) &&
		(req.Name == "" || req.Name == r.Name) &&
		(req.Engine.IsZero() || req.Engine == r.Engine && r.Status.Driven()) &&
		(!req.Orphans || j.orphan(r, now)) &&
		(!req.Parked || r.Parked != nil) &&
		compare(cursor(r), req.After) > 0
}

// bare returns r without what may be large.
func bare(r saga.Record) saga.Record {
	r.Input, r.Result = nil, nil
	for i := range r.Entries {
		r.Entries[i].Result = nil
	}
	return r
}

func cursor(r saga.Record) saga.Cursor { return saga.Cursor{CreatedAt: r.CreatedAt, ID: r.ID} }

func compare(a, b saga.Cursor) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// Change implements [saga.OperatorJournal].
func (j *Journal) Change(ctx context.Context, c saga.Change) (saga.Record, bool, error) {
	if err := checkChange(c); err != nil {
		return saga.Record{}, false, err
	}
	if err := j.lock(ctx); err != nil {
		return saga.Record{}, false, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	r, ok := j.sagas[c.ID]
	if !ok {
		return saga.Record{}, false, saga.ErrNotFound
	}
	if r.Revision != c.Revision {
		return shown(r, now), false, nil
	}
	if c.Wake {
		return j.wake(r, c, now)
	}
	from := r.Status
	r.Entries = merged(r.Entries, c.Entries)
	r.Cancel = r.Cancel || c.Cancel
	r.Engine, r.Deaths, r.WakeAt, r.StuckOn, r.Parked = saga.EngineID{}, 0, time.Time{}, nil, nil
	if c.Status.Driven() {
		r.WakeAt = now
	}
	r.ResumedAt = now
	if r.Fence > 0 { // else there is no owner to fence off, and the first one must know
		r.Fence++
	}
	r.Revision++
	if c.Deadline > 0 {
		r.DeadlineAt = now.Add(c.Deadline)
	}
	r = moved(r, c.Status, c.Keep, now)
	j.sagas[c.ID] = r
	j.audit = append(j.audit, saga.AuditEntry{At: now, ID: c.ID, Audit: c.By, From: from, To: r.Status, Fence: r.Fence})
	return shown(r, now), true, nil
}

func checkChange(c saga.Change) error {
	switch {
	case c.Wake && (c.Status != 0 || c.Cancel || c.Deadline != 0 || c.Keep != 0):
		return fmt.Errorf("%w: Wake with more than Entries", ErrArgument)
	case !c.Wake && (c.Status < saga.Running || c.Status > saga.Abandoned):
		return fmt.Errorf("%w: Status %d", ErrArgument, c.Status)
	}
	return nil
}

// wake has the saga try at once what waits. The journal is locked.
func (j *Journal) wake(r saga.Record, c saga.Change, now time.Time) (saga.Record, bool, error) {
	if !r.Status.Driven() {
		return shown(r, now), false, nil
	}
	r.Entries = merged(r.Entries, c.Entries)
	if r.WakeAt.After(now) {
		r.WakeAt = now
	}
	j.sagas[c.ID] = r
	j.audit = append(j.audit, saga.AuditEntry{At: now, ID: c.ID, Audit: c.By, From: r.Status, To: r.Status, Fence: r.Fence})
	return shown(r, now), true, nil
}

// AuditLog implements [saga.OperatorJournal].
func (j *Journal) AuditLog(ctx context.Context, id saga.ID, limit int) ([]saga.AuditEntry, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	var found []saga.AuditEntry
	for _, e := range slices.Backward(j.audit) {
		if len(found) < limit && (id == saga.ID{} || id == e.ID) {
			found = append(found, e)
		}
	}
	return found, nil
}
