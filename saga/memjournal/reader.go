package memjournal

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga/journal"
)

// A reader shows the sagas of a [Journal] to people.
type reader struct{ j *Journal }

// Reader implements [journal.OperatorJournal].
func (j *Journal) Reader() journal.Reader { return reader{j} }

// Show implements [journal.Reader].
func (r reader) Show(ctx context.Context, id journal.ID) (journal.Record, error) {
	rec, err := r.j.Read(ctx, id)
	return veil(rec), err
}

// Browse implements [journal.Reader]. It looks at every saga.
func (r reader) Browse(ctx context.Context, req journal.BrowseRequest) ([]journal.Record, error) {
	req, err := req.Normalize()
	if err != nil {
		return nil, fmt.Errorf("memjournal: browse: %w", err)
	}
	if err := r.j.lock(ctx); err != nil {
		return nil, err
	}
	defer r.j.mu.Unlock()
	now := r.j.clock()
	if req.From.IsZero() && !req.Unfinished() {
		req.From = now.Add(-journal.BrowseWindow)
	}
	var found []journal.Record
	for _, rec := range r.j.sagas {
		if isBrowsed(rec, req) {
			found = append(found, abridge(snapshot(rec, now)))
		}
	}
	slices.SortFunc(found, func(a, b journal.Record) int { return compareIn(req, cursor(a), cursor(b)) })
	return found[:min(len(found), req.Limit)], nil
}

// isBrowsed reports whether a normal req lists rec.
func isBrowsed(rec journal.Record, req journal.BrowseRequest) bool {
	return slices.Contains(req.Statuses, rec.Status) &&
		!rec.CreatedAt.Before(req.From) &&
		(req.To.IsZero() || rec.CreatedAt.Before(req.To)) &&
		(req.Name == "" || req.Name == rec.Name) &&
		(req.StuckOn == "" || rec.StuckOn != nil && req.StuckOn == rec.StuckOn.Step) &&
		(req.Before == journal.Cursor{} || compareIn(req, cursor(rec), req.Before) > 0)
}

// compareIn compares two places in the order of a list.
func compareIn(req journal.BrowseRequest, a, b journal.Cursor) int {
	if req.OldestFirst {
		return compare(a, b)
	}
	return compare(b, a)
}

// veil returns rec without the content of the saga: input, results and the bodies of answers.
func veil(rec journal.Record) journal.Record {
	rec.Input, rec.InputHash, rec.Trace, rec.Result = nil, [32]byte{}, "", nil
	for i := range rec.Entries {
		rec.Entries[i].Result, rec.Entries[i].Body = nil, nil
	}
	for _, f := range []*journal.Failure{rec.Cause, rec.StuckOn, rec.Deferred} {
		if f != nil {
			f.Body = nil
		}
	}
	return rec
}

// abridge returns rec as a list shows it.
func abridge(rec journal.Record) journal.Record {
	rec = veil(rec)
	rec.Scope, rec.Key, rec.Entries = "", childkey.Key{}, nil
	return rec
}

// Plan implements [journal.Reader].
func (r reader) Plan(ctx context.Context, name string, version int) (journal.PlanRecord, error) {
	return r.j.ReadPlan(ctx, name, version)
}

// Plans implements [journal.Reader].
func (r reader) Plans(ctx context.Context) ([]journal.PlanRecord, error) {
	if err := r.j.lock(ctx); err != nil {
		return nil, err
	}
	defer r.j.mu.Unlock()
	plans := make([]journal.PlanRecord, 0, len(r.j.plans))
	for _, plan := range r.j.plans {
		plan.Lines = slices.Clone(plan.Lines)
		plans = append(plans, plan)
	}
	slices.SortFunc(plans, func(a, b journal.PlanRecord) int {
		return cmp.Or(bytes.Compare([]byte(a.Name), []byte(b.Name)), cmp.Compare(a.Version, b.Version))
	})
	return plans, nil
}

// Stats implements [journal.Reader].
func (r reader) Stats(ctx context.Context) (journal.Stats, error) { return r.j.Stats(ctx) }

// Estimate implements [journal.Reader]. The number of sagas is exact, and Bytes is 0.
func (r reader) Estimate(ctx context.Context) (journal.Estimate, error) {
	if err := r.j.lock(ctx); err != nil {
		return journal.Estimate{}, err
	}
	defer r.j.mu.Unlock()
	e, now := journal.Estimate{Sagas: int64(len(r.j.sagas))}, r.j.clock()
	for _, rec := range r.j.sagas {
		if rec.Status.Final() {
			e.SweepLag = max(e.SweepLag, now.Sub(rec.ExpiresAt))
		}
	}
	return e, nil
}

// AuditPage implements [journal.Reader].
func (r reader) AuditPage(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("memjournal: audit page: %w", err)
	}
	if err := r.j.lock(ctx); err != nil {
		return nil, err
	}
	defer r.j.mu.Unlock()
	var page []journal.AuditEntry
	for _, e := range slices.Backward(r.j.audit) {
		if len(page) < req.Limit &&
			(req.ID == journal.ID{} || req.ID == e.ID) &&
			(req.Actor == "" || req.Actor == e.Actor) &&
			(req.Before == 0 || e.Number < req.Before) {
			page = append(page, e)
		}
	}
	return page, nil
}
