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
	if !req.Engine.IsZero() {
		r.Fence, r.FirstClaimedAt = 1, now
	}
	j.sagas[req.ID] = r
	return shown(r, now), true, nil
}

// Append implements [saga.Journal].
func (j *Journal) Append(ctx context.Context, o saga.Owner, w saga.Write) error {
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.mu.Unlock()
	r, ok := j.sagas[o.ID]
	switch {
	case !ok || r.Fence != o.Fence || r.Engine != o.Engine && r.Parked == nil:
		return saga.ErrLeaseLost
	case r.Revision == w.Revision && w.Revision > 1 && (r.Parked != nil) == (w.Park != nil):
		return nil // it is there already, and its answer was lost
	case r.Revision != w.Revision-1 || !r.Status.Driven() || r.Parked != nil:
		return saga.ErrLeaseLost
	}
	now := j.clock()
	if w.Park != nil {
		r.Revision, r.Engine, r.WakeAt, r.Parked = w.Revision, saga.EngineID{}, time.Time{}, copied(w.Park)
		j.sagas[o.ID] = r
		return nil
	}
	r.Revision, r.WakeAt = w.Revision, w.WakeAt
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

// Claim implements [saga.Journal].
func (j *Journal) Claim(ctx context.Context, req saga.ClaimRequest) ([]saga.Record, error) {
	if req.Limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, req.Limit)
	}
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	if !j.alive(req.Engine, now) {
		return nil, saga.ErrLeaseLost
	}
	var found []saga.Record
	for _, r := range j.sagas {
		plans := req.Plans
		if r.Parked != nil {
			plans = req.Parked
		}
		if j.orphan(r, now) && !now.Before(r.WakeAt) && slices.Contains(plans, r.Plan) {
			if !r.Engine.IsZero() && !j.engines[r.Engine].left {
				r.Deaths++
			}
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b saga.Record) int { return compare(cursor(a), cursor(b)) })
	suspects := 0
	found = slices.DeleteFunc(found, func(r saga.Record) bool {
		if r.Deaths < saga.SuspectDeaths {
			return false
		}
		suspects++
		return suspects > req.Suspects
	})
	found = found[:min(len(found), req.Limit)]
	for i, r := range found {
		r.Engine, r.Parked = req.Engine, nil
		r.Fence++
		r.Revision++
		if r.FirstClaimedAt.IsZero() {
			r.FirstClaimedAt = now
		}
		j.sagas[r.ID] = r
		found[i] = shown(r, now)
	}
	return found, nil
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
