package memjournal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// Start implements [journal.Journal].
func (j *Journal) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	if err := j.lock(ctx); err != nil {
		return journal.Record{}, false, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	if r, ok := j.sagas[req.ID]; ok {
		repeated := !req.Engine.IsZero() && r.Engine == req.Engine && r.Revision == 1
		return snapshot(r, now), repeated, nil
	}
	r := journal.Record{
		ID: req.ID, Scope: req.Scope, Key: req.Key,
		Name: req.Name, Version: req.Version, Plan: req.Plan,
		InputHash: req.InputHash, Input: slices.Clone(req.Input), Trace: req.Trace,
		Status: journal.Running, Engine: req.Engine, Revision: 1,
		Times: journal.Times{CreatedAt: now},
	}
	if req.Engine.IsZero() {
		r.Clean, r.WakeAt = true, now
		if req.At.After(now) {
			r.WakeAt = req.At.Round(0).UTC()
		}
	} else {
		r.Fence, r.FirstClaimedAt = 1, now
	}
	j.sagas[req.ID] = r
	return snapshot(r, now), true, nil
}

// Append implements [journal.Journal].
func (j *Journal) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	if !w.WakeAt.IsZero() && w.Status.Final() {
		return fmt.Errorf("%w: WakeAt with Status %v", ErrArgument, w.Status)
	}
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	after := o.Engine
	if !w.WakeAt.IsZero() || w.Defer != nil {
		after = journal.EngineID{} // the write gives the saga up
	}
	r, ok := j.sagas[o.ID]
	made := r.Revision - r.Wakes
	switch {
	case !ok || r.Fence != o.Fence:
		return journal.ErrLeaseLost
	case r.Engine == after && (r.Deferred != nil) == (w.Defer != nil) && made == w.Revision && w.Revision > 1:
		return nil // it is there already, and its answer was lost
	case r.Engine != o.Engine || made != w.Revision-1 || !r.Status.Active():
		return journal.ErrLeaseLost
	}
	now := j.clock()
	r.Revision, r.Engine, r.Deferred = w.Revision+r.Wakes, after, cloneFailure(w.Defer)
	if r.Clean = !w.WakeAt.IsZero(); r.Clean {
		j.slept[r.ID] = now
	}
	switch {
	case w.Defer != nil || w.Status != 0 && !w.Status.Active():
		r.WakeAt = time.Time{}
	case r.WakeAt.IsZero(): // else a person woke it, and it is due when its owner gives it up
		r.WakeAt = w.WakeAt
	}
	if len(w.Entries) > 0 {
		r.Entries, r.RecoveryAttempts = mergeEntries(r.Entries, w.Entries), 0
	}
	r.Cause, r.StuckOn = cmp.Or(cloneFailure(w.Cause), r.Cause), cmp.Or(cloneFailure(w.StuckOn), r.StuckOn)
	if !w.DeadlineAt.IsZero() {
		r.DeadlineAt = w.DeadlineAt
	}
	if w.Result != nil {
		r.Result = slices.Clone(w.Result)
	}
	j.sagas[o.ID] = move(r, w.Status, w.Keep, now)
	return nil
}

// move returns r in the given status; 0 leaves it.
func move(r journal.Record, to journal.Status, keep time.Duration, now time.Time) journal.Record {
	r.Status = cmp.Or(to, r.Status)
	if r.Status == journal.Compensating && r.FailedAt.IsZero() {
		r.FailedAt = now
	}
	switch {
	case r.Status.Active():
		r.FinishedAt = time.Time{}
	case r.FinishedAt.IsZero() || to != 0: // a change of a final saga begins its retention anew
		r.FinishedAt = now
	}
	if r.Status.Final() {
		r.ExpiresAt = now.Add(keep)
	}
	return r
}

// mergeEntries returns old with the entries of add. An entry replaces the one for the same call, or
// comes last. mergeEntries changes neither slice.
func mergeEntries(old, add []journal.Entry) []journal.Entry {
	all := slices.Clone(old)
	for _, e := range add {
		e.Result, e.Body = slices.Clone(e.Result), slices.Clone(e.Body)
		i := slices.IndexFunc(all, func(have journal.Entry) bool { return have.Step == e.Step && have.Undo == e.Undo })
		if i < 0 {
			all = append(all, e)
		} else {
			all[i] = e
		}
	}
	return all
}

// snapshot returns r as of now. The result shares no memory with the journal's own record.
func snapshot(r journal.Record, now time.Time) journal.Record {
	r.Now = now
	if !r.Engine.IsZero() {
		r.WakeAt = time.Time{} // wake left it for the next write
	}
	r.Input = slices.Clone(r.Input)
	r.Result = slices.Clone(r.Result)
	r.Entries = slices.Clone(r.Entries)
	for i := range r.Entries {
		e := &r.Entries[i]
		e.Result, e.Body = slices.Clone(e.Result), slices.Clone(e.Body)
	}
	r.Cause, r.StuckOn, r.Deferred = cloneFailure(r.Cause), cloneFailure(r.StuckOn), cloneFailure(r.Deferred)
	return r
}

func cloneFailure(f *journal.Failure) *journal.Failure {
	if f == nil {
		return nil
	}
	c := *f
	c.Body = slices.Clone(f.Body)
	return &c
}
