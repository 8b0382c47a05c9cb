package memjournal

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// A candidate is an unowned saga, with the values that decide its place in the order.
type candidate struct {
	at    journal.Cursor
	plan  journal.PlanHash
	since time.Time // when it became unowned
	place int       // among those of its plan
}

// Claim implements [journal.Journal].
func (j *Journal) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	switch {
	case req.Limit <= 0:
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, req.Limit)
	case req.PerPlan < 0:
		return nil, fmt.Errorf("%w: PerPlan %d", ErrArgument, req.PerPlan)
	case req.Backoff < 0:
		return nil, fmt.Errorf("%w: Backoff %v", ErrArgument, req.Backoff)
	}
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	now := j.clock()
	if !j.isAlive(req.Engine, now) {
		return nil, journal.ErrLeaseLost
	}
	found := j.candidates(req, now)
	claimed := make([]journal.Record, len(found))
	for i, c := range found {
		claimed[i] = j.take(j.sagas[c.at.ID], req.Engine, now)
	}
	return claimed, nil
}

// candidates returns the unowned sagas to claim, in their order. j.mu is held.
func (j *Journal) candidates(req journal.ClaimRequest, now time.Time) []candidate {
	var found []candidate
	for _, r := range j.sagas {
		plans := req.Plans
		if r.Deferred != nil {
			plans = req.Deferred
		}
		if !j.isUnowned(r, now) || !slices.Contains(plans, r.Plan) {
			continue
		}
		if since, ok := j.unownedSince(r, req.Backoff, now); ok {
			found = append(found, candidate{at: cursor(r), plan: r.Plan, since: since})
		}
	}
	older := func(a, b candidate) int {
		return cmp.Or(a.since.Compare(b.since), compare(a.at, b.at))
	}
	slices.SortFunc(found, older)
	places := make(map[journal.PlanHash]int)
	for i := range found {
		places[found[i].plan]++
		found[i].place = places[found[i].plan]
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.place, b.place) })
	perPlan := cmp.Or(req.PerPlan, req.Limit)
	found = slices.DeleteFunc(found, func(c candidate) bool { return c.place > perPlan })
	return found[:min(len(found), req.Limit)]
}

// unownedSince returns the time at which a saga became unowned, and false if no engine may claim the
// saga yet.
func (j *Journal) unownedSince(r journal.Record, backoff time.Duration, now time.Time) (time.Time, bool) {
	switch {
	case r.Deferred != nil:
		return r.CreatedAt, true
	case r.Engine.IsZero():
		// If the clock has gone back, the wait would last as much longer.
		return r.WakeAt, !now.Before(r.WakeAt) || now.Before(j.slept[r.ID])
	}
	l := j.engines[r.Engine]
	earlier := len(j.deadEngines(r)) - 1 // deaths before that of its engine
	if l.left || earlier < 1 {
		return l.until, true
	}
	part := float64(r.ID[earlier%len(r.ID)]) / math.MaxUint8
	wait := float64(backoff) * float64(int(1)<<min(earlier-1, 4)) * (1 + part)
	return l.until, !now.Before(l.until.Add(time.Duration(wait)))
}

// deadEngines returns the engines that died under an unowned saga since the saga last made progress, its
// present engine included. An engine died if its lease ended and it did not leave.
func (j *Journal) deadEngines(r journal.Record) []journal.EngineID {
	var died []journal.EngineID
	if r.RecoveryAttempts > 0 {
		died = slices.Clone(j.lapsed[r.ID])
	}
	if !r.Engine.IsZero() {
		died = append(died, r.Engine)
	}
	return slices.DeleteFunc(died, func(id journal.EngineID) bool { return j.engines[id].left })
}

// take makes the engine the owner of an unowned saga, and returns the saga as callers see it.
func (j *Journal) take(r journal.Record, engine journal.EngineID, now time.Time) journal.Record {
	clean := r.Clean
	j.lapsed[r.ID] = j.deadEngines(r)
	r.RecoveryAttempts = len(j.lapsed[r.ID])
	if r.RecoveryAttempts == 0 {
		delete(j.lapsed, r.ID)
	}
	r.Engine, r.WakeAt, r.Clean, r.Deferred = engine, time.Time{}, false, nil
	r.Fence++
	r.Revision++
	r.Wakes = 0
	delete(j.slept, r.ID)
	if r.FirstClaimedAt.IsZero() {
		r.FirstClaimedAt = now
	}
	j.sagas[r.ID] = r
	r = snapshot(r, now)
	r.Clean = clean
	return r
}
