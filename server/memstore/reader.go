package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Reader implements [store.Store]. The Reader has every list, and reads all records for each of them.
func (s *Store) Reader() store.Reader { return reader{s} }

// A reader shows the records of a store to people.
type reader struct{ s *Store }

// Show implements [store.Reader].
func (r reader) Show(ctx context.Context, id store.ID) (store.Record, error) {
	found, err := r.s.Read(ctx, id)
	return found.Public(), err
}

// List implements [store.Reader]. It waits for no transaction.
func (r reader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if err := cmp.Or(req.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	var found []store.Record
	for _, r := range slices.Backward(s.youngestFirst()) {
		r.Now = now
		if len(found) < req.Limit && req.Matches(&r, s.dead[r.ID]) {
			found = append(found, show(r, now).Public())
		}
	}
	return found, nil
}

// Browse implements [store.Reader].
func (r reader) Browse(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	from, to := req.Window(now)
	var found []store.Record
	for _, r := range s.youngestFirst() {
		if len(found) < req.Limit && isBrowsed(r, req, from, to) {
			found = append(found, show(r, now).Public())
		}
	}
	return found, nil
}

func isBrowsed(r store.Record, req store.BrowseRequest, from, to time.Time) bool {
	return !r.CreatedAt.Before(from) && (to.IsZero() || r.CreatedAt.Before(to)) &&
		(req.Before.CreatedAt.IsZero() || r.Cursor().Compare(req.Before) < 0) &&
		(len(req.States) == 0 || slices.Contains(req.States, r.State)) &&
		(req.Effect == 0 || req.Effect == r.Effect) &&
		(req.Route == "" || req.Route == r.Route)
}

// youngestFirst returns all records. s.mu is held.
func (s *Store) youngestFirst() []store.Record {
	all := make([]store.Record, 0, len(s.records))
	for _, r := range s.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b store.Record) int { return b.Cursor().Compare(a.Cursor()) })
	return all
}

// Attention implements [store.Reader]. It waits for no transaction.
func (r reader) Attention(ctx context.Context) (store.Attention, error) {
	if err := ctx.Err(); err != nil {
		return store.Attention{}, err
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var a store.Attention
	now := s.clock()
	for id, rec := range s.records {
		switch {
		case rec.State == store.StateUnknown:
			a.Unknown++
		case rec.State == store.StateQuarantined:
			a.Quarantined++
		case s.dead[id]:
			a.DeadLetters++
		default:
			continue
		}
		a.Oldest = max(a.Oldest, now.Sub(rec.CreatedAt))
	}
	return a, nil
}

// Estimate implements [store.Reader]. Its numbers are exact, and Bytes is always 0.
func (r reader) Estimate(ctx context.Context) (store.Estimate, error) {
	if err := ctx.Err(); err != nil {
		return store.Estimate{}, err
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now, all := s.clock(), s.youngestFirst()
	e := store.Estimate{Records: int64(len(all)), Young: min(len(all), store.MaxYoung), ByState: make(map[store.State]int)}
	for i, r := range all {
		if isSweepable(r, now) {
			e.SweepLag = max(e.SweepLag, now.Sub(sweepableSince(r)))
		}
		if i >= e.Young {
			continue
		}
		e.ByState[r.State]++
		if r.State == store.StateInProgress {
			e.OldestInProgress = now.Sub(r.CreatedAt) // the last one is the oldest
		}
	}
	return e, nil
}

// sweepableSince returns since when r, which is sweepable, has been so.
func sweepableSince(r store.Record) time.Time {
	since := r.ExpiresAt
	switch {
	case r.State == store.StateCompleted && r.ReplayUntil.After(since):
		since = r.ReplayUntil
	case r.State == store.StateInProgress && r.LeaseUntil.After(since):
		since = r.LeaseUntil
	}
	return since
}

// AuditPage implements [store.Reader].
func (r reader) AuditPage(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.AuditEntry
	for _, e := range slices.Backward(s.audit) {
		if len(found) < req.Limit && (req.ID == store.ID{} || req.ID == e.ID) &&
			(req.Actor == "" || req.Actor == e.Actor) && (req.Before == 0 || e.Number < req.Before) {
			found = append(found, e)
		}
	}
	return found, nil
}
