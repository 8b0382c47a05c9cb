package natsstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Resolve implements [store.OperatorStore].
func (s *Store) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	if err := checkResolve(req); err != nil {
		return store.Record{}, false, err
	}
	resolved := false
	c, err := s.change(ctx, req.ID, nil, &req.By, func(e *entry, now time.Time) (verdict, error) {
		if !e.exists() {
			return keepIt, store.ErrNotFound
		}
		if e.Fence != req.From || !e.resolvable(now) {
			resolved = e.Token == req.Token && e.Fence == req.From+1 // done before, and its answer was lost
			return keepIt, nil
		}
		e.resolve(req, now)
		resolved = true
		return writeIt, nil
	})
	if err != nil {
		return store.Record{}, false, err
	}
	return c.after.shown(c.now), resolved, nil
}

// Forget implements [store.OperatorStore].
func (s *Store) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	c, err := s.change(ctx, id, nil, &by, func(e *entry, now time.Time) (verdict, error) {
		switch {
		case !e.exists():
			return keepIt, store.ErrNotFound
		case e.Fence != from || e.State == store.StateInProgress && !e.dead(now):
			return keepIt, nil
		}
		return deleteIt, nil
	})
	if err != nil {
		return store.Record{}, false, err
	}
	return c.before.shown(c.now), c.did == deleteIt, nil
}

// Defer implements [store.OperatorStore].
func (s *Store) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	if err := checkLength(d); err != nil {
		return false, err
	}
	c, err := s.change(ctx, id, nil, nil, func(e *entry, now time.Time) (verdict, error) {
		switch {
		case !e.exists():
			return keepIt, store.ErrNotFound
		case e.Fence != from || e.State != store.StateUnknown || now.Before(e.LeaseUntil):
			return keepIt, nil
		}
		e.LeaseUntil = now.Add(d)
		return writeIt, nil
	})
	return c.did == writeIt, err
}

// List implements [store.OperatorStore]. A list of unknown or quarantined keys, or of dead letters, reads these keys.
// Any other list reads the whole bucket.
func (s *Store) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if err := checkLimit(req.Limit); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make(map[store.ID]store.Record) // a key that moves during the scan is seen twice
	now := s.now()
	visit := func(e entry) {
		delete(found, e.ID)
		if !listed(&e, req, now) {
			return
		}
		r := e.shown(now)
		r.Answer = store.Answer{}
		found[r.ID] = r
		if len(found) > 2*req.Limit+scanBatch {
			keepOldest(found, req.Limit)
		}
	}
	err := s.each(ctx, req, visit)
	if err != nil {
		return nil, err
	}
	return keepOldest(found, req.Limit), nil
}

// each visits the entries that a list may have.
func (s *Store) each(ctx context.Context, req store.ListRequest, visit func(entry)) error {
	few := req.DeadLetters || len(req.States) > 0 && !slices.ContainsFunc(req.States, func(state store.State) bool {
		return state != store.StateUnknown && state != store.StateQuarantined
	})
	if few {
		return s.needy(ctx, visit)
	}
	return s.all(ctx, func(e entry) error { visit(e); return nil })
}

// all visits every entry of the bucket, without the parts of large answers.
func (s *Store) all(ctx context.Context, visit func(entry) error) error {
	return s.stream.scan(ctx, s.stream.bucket.all(keySpace), 0, func(m message) error {
		e, ok := s.scanned(ctx, m)
		if !ok {
			return nil
		}
		return visit(e)
	})
}

// scanned decodes a message of the key space. An unreadable one is left out, and logged.
func (s *Store) scanned(ctx context.Context, m message) (entry, bool) {
	id, ok := idOf(m.subject)
	if !ok {
		return entry{}, false
	}
	e, err := decode(id, m.rev, m.data)
	if err != nil {
		s.log.WarnContext(ctx, "natsstore: a record cannot be read", "id", id, "error", err)
		return entry{}, false
	}
	return e, true
}

// keepOldest deletes all but the n oldest records, and returns these in order.
func keepOldest(found map[store.ID]store.Record, n int) []store.Record {
	records := make([]store.Record, 0, len(found))
	for _, r := range found {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b store.Record) int { return compare(cursor(a), cursor(b)) })
	for _, r := range records[min(len(records), n):] {
		delete(found, r.ID)
	}
	return records[:min(len(records), n)]
}

func listed(e *entry, req store.ListRequest, now time.Time) bool {
	if !e.exists() || req.DeadLetters && !e.listedDeadLetter() {
		return false
	}
	states, children := req.States, req.Parent != store.ID{}
	switch {
	case req.DeadLetters:
		states = []store.State{store.StateCompleted}
	case len(states) == 0 && !children:
		states = []store.State{store.StateUnknown, store.StateQuarantined, store.StateInProgress}
	}
	long := children || req.Running > 0 && !now.Before(e.CreatedAt.Add(req.Running))
	return (len(states) == 0 || slices.Contains(states, e.State)) &&
		(!children || e.Parent == req.Parent) &&
		(req.Effect == 0 || req.Effect == e.Effect) &&
		(req.Route == "" || req.Route == e.Route) &&
		(e.State != store.StateInProgress || e.dead(now) || long) &&
		compare(cursor(e.Record), req.After) > 0
}

func cursor(r store.Record) store.Cursor { return store.Cursor{CreatedAt: r.CreatedAt, ID: r.ID} }

func compare(a, b store.Cursor) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}
