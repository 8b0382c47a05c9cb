package memjournal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga"
)

// Start implements [saga.Journal].
func (j *Journal) Start(ctx context.Context, req saga.StartRequest) (saga.Record, bool, error) {
	if err := j.lock(ctx); err != nil {
		return saga.Record{}, false, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	if r, ok := j.sagas[req.ID]; ok {
		repeated := !req.Engine.IsZero() && r.Engine == req.Engine && r.Revision == 1
		return shown(r, now), repeated, nil
	}
	r := saga.Record{
		ID: req.ID, Scope: req.Scope, Key: req.Key,
		Name: req.Name, Version: req.Version, Plan: req.Plan,
		InputHash: req.InputHash, Input: slices.Clone(req.Input),
		Status: saga.Running, Engine: req.Engine, Revision: 1,
		CreatedAt: now,
	}
	if req.Engine.IsZero() {
		r.Clean, r.WakeAt = true, now
	} else {
		r.Fence, r.FirstClaimedAt = 1, now
	}
	j.sagas[req.ID] = r
	return shown(r, now), true, nil
}

// Append implements [saga.Journal].
func (j *Journal) Append(ctx context.Context, o saga.Owner, w saga.Write) error {
	if !w.WakeAt.IsZero() && w.Status != 0 && !w.Status.Driven() {
		return fmt.Errorf("%w: WakeAt with Status %v", ErrArgument, w.Status)
	}
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	after := o.Engine
	if !w.WakeAt.IsZero() || w.Park != nil {
		after = saga.EngineID{} // the write gives the saga up
	}
	r, ok := j.sagas[o.ID]
	switch {
	case !ok || r.Fence != o.Fence:
		return saga.ErrLeaseLost
	case r.Engine == after && (r.Parked != nil) == (w.Park != nil) && r.Revision == w.Revision && w.Revision > 1:
		return nil // it is there already, and its answer was lost
	case r.Engine != o.Engine || r.Revision != w.Revision-1 || !r.Status.Driven():
		return saga.ErrLeaseLost
	}
	now := j.clock()
	r.Revision, r.Engine, r.Parked = w.Revision, after, copied(w.Park)
	r.Clean, r.WakeAt = !w.WakeAt.IsZero(), w.WakeAt
	if len(w.Entries) > 0 {
		r.Entries, r.Deaths = merged(r.Entries, w.Entries), 0
	}
	r.Cause, r.StuckOn = cmp.Or(copied(w.Cause), r.Cause), cmp.Or(copied(w.StuckOn), r.StuckOn)
	if !w.DeadlineAt.IsZero() {
		r.DeadlineAt = w.DeadlineAt
	}
	if w.Result != nil {
		r.Result = slices.Clone(w.Result)
	}
	j.sagas[o.ID] = moved(r, w.Status, w.Keep, now)
	return nil
}

// moved returns r in the given status; 0 leaves it.
func moved(r saga.Record, to saga.Status, keep time.Duration, now time.Time) saga.Record {
	r.Status = cmp.Or(to, r.Status)
	if r.Status == saga.Compensating && r.Turned.IsZero() {
		r.Turned = now
	}
	switch {
	case r.Status.Driven():
		r.FinishedAt = time.Time{}
	case r.FinishedAt.IsZero() || to != 0: // a change of something final begins its retention anew
		r.FinishedAt = now
	}
	if r.Status.Final() {
		r.ExpiresAt = now.Add(keep)
	}
	return r
}

// merged returns old with each of add in place of the entry for the same call,
// or behind the others. It changes neither.
func merged(old, add []saga.Entry) []saga.Entry {
	all := slices.Clone(old)
	for _, e := range add {
		e.Result = slices.Clone(e.Result)
		i := slices.IndexFunc(all, func(have saga.Entry) bool { return have.Step == e.Step && have.Undo == e.Undo })
		if i < 0 {
			all = append(all, e)
		} else {
			all[i] = e
		}
	}
	return all
}

// shown returns r as of now. Nobody may change what the journal holds through it.
func shown(r saga.Record, now time.Time) saga.Record {
	r.Now = now
	r.Input = slices.Clone(r.Input)
	r.Result = slices.Clone(r.Result)
	r.Entries = slices.Clone(r.Entries)
	for i := range r.Entries {
		r.Entries[i].Result = slices.Clone(r.Entries[i].Result)
	}
	r.Cause, r.StuckOn, r.Parked = copied(r.Cause), copied(r.StuckOn), copied(r.Parked)
	return r
}

func copied(f *saga.Failure) *saga.Failure {
	if f == nil {
		return nil
	}
	c := *f
	return &c
}
