package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Resolve implements [store.OperatorStore].
func (s *Store) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	return s.operate(ctx, req.ID, func(r store.Record, now time.Time) (store.Record, bool) {
		if r.Fence != req.From || !isResolvable(r, now) {
			return r, r.Token == req.Token && r.Fence == req.From+1 // done before, and its answer was lost
		}
		from := r.State
		r = toResolved(r, req, now)
		s.put(r)
		s.log(store.AuditEntry{At: now, ID: r.ID, Audit: req.By, From: from, To: r.State, Fence: r.Fence})
		return r, true
	})
}

// Forget implements [store.OperatorStore].
func (s *Store) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	return s.operate(ctx, id, func(r store.Record, now time.Time) (store.Record, bool) {
		if r.Fence != from || (r.State == store.StateInProgress && !isDead(r, now)) {
			return r, false
		}
		s.remove(id)
		s.log(store.AuditEntry{At: now, ID: id, Audit: by, From: r.State, Fence: r.Fence})
		return r, true
	})
}

// Defer implements [store.OperatorStore].
func (s *Store) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	if err := store.CheckLease(d); err != nil {
		return false, err
	}
	_, won, err := s.operate(ctx, id, func(r store.Record, now time.Time) (store.Record, bool) {
		if r.Fence != from || r.State != store.StateUnknown || now.Before(r.LeaseUntil) {
			return r, false
		}
		r.LeaseUntil = now.Add(d)
		s.put(r)
		return r, true
	})
	return won, err
}

// operate lets move act on a record that no transaction holds. move returns the
// record to show, and whether it is in the state that the caller wants.
func (s *Store) operate(ctx context.Context, id store.ID,
	move func(store.Record, time.Time) (r store.Record, ok bool),
) (store.Record, bool, error) {
	if err := s.acquire(ctx, nil, id); err != nil {
		return store.Record{}, false, err
	}
	defer s.mu.Unlock()
	return s.moveRecord(id, move)
}

// moveRecord returns the result of move on a record. s.mu is held.
func (s *Store) moveRecord(id store.ID, move func(store.Record, time.Time) (r store.Record, ok bool)) (store.Record, bool, error) {
	r, ok := s.records[id]
	if !ok {
		return store.Record{}, false, store.ErrNotFound
	}
	now := s.clock()
	r, ok = move(r, now)
	return show(r, now), ok, nil
}

// keptEntries is how many entries the audit log keeps at least: the youngest ones.
const keptEntries = 10_000

// log adds an entry to the audit log. s.mu is held.
func (s *Store) log(e store.AuditEntry) {
	e.Number = 1
	if n := len(s.audit); n > 0 {
		e.Number += s.audit[n-1].Number
	}
	if len(s.audit) == 2*keptEntries {
		s.audit = slices.Clone(s.audit[keptEntries:])
	}
	s.audit = append(s.audit, e)
}
