package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server"
)

// List implements [server.OperatorStore]. It waits for no transaction.
func (s *Store) List(ctx context.Context, req server.ListRequest) ([]server.Record, error) {
	if req.Limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, req.Limit)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	var found []server.Record
	for _, r := range s.records {
		if listed(r, req, now) {
			r = shown(r, now)
			r.Answer = server.Answer{}
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b server.Record) int { return compare(cursor(a), cursor(b)) })
	return found[:min(len(found), req.Limit)], nil
}

func listed(r server.Record, req server.ListRequest, now time.Time) bool {
	states := req.States
	if len(states) == 0 {
		states = []server.State{server.StateUnknown, server.StatePoisoned, server.StateInProgress}
	}
	long := req.Running > 0 && !now.Before(r.CreatedAt.Add(req.Running))
	return slices.Contains(states, r.State) &&
		(req.Effect == 0 || req.Effect == r.Effect) &&
		(req.Route == "" || req.Route == r.Route) &&
		(r.State != server.StateInProgress || dead(r, now) || long) &&
		compare(cursor(r), req.After) > 0
}

func cursor(r server.Record) server.Cursor { return server.Cursor{CreatedAt: r.CreatedAt, ID: r.ID} }

func compare(a, b server.Cursor) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

// Resolve implements [server.OperatorStore].
func (s *Store) Resolve(ctx context.Context, req server.ResolveRequest) (server.Record, bool, error) {
	if err := checkResolve(req); err != nil {
		return server.Record{}, false, err
	}
	return s.operate(ctx, req.ID, func(r server.Record, now time.Time) (server.Record, bool) {
		if r.Fence != req.From || !resolvable(r, now) {
			return r, r.Token == req.Token && r.Fence == req.From+1 // done before, and its answer was lost
		}
		from := r.State
		r = resolved(r, req, now)
		s.put(r)
		s.audit = append(s.audit, server.AuditEntry{At: now, ID: r.ID, Audit: req.By, From: from, To: r.State, Fence: r.Fence})
		return r, true
	})
}

// Forget implements [server.OperatorStore].
func (s *Store) Forget(ctx context.Context, id server.ID, from int64, by server.Audit) (server.Record, bool, error) {
	return s.operate(ctx, id, func(r server.Record, now time.Time) (server.Record, bool) {
		if r.Fence != from || (r.State == server.StateInProgress && !dead(r, now)) {
			return r, false
		}
		s.remove(id)
		s.audit = append(s.audit, server.AuditEntry{At: now, ID: id, Audit: by, From: r.State, Fence: r.Fence})
		return r, true
	})
}

// Defer implements [server.OperatorStore].
func (s *Store) Defer(ctx context.Context, id server.ID, from int64, d time.Duration) (bool, error) {
	if err := checkLease(d); err != nil {
		return false, err
	}
	_, won, err := s.operate(ctx, id, func(r server.Record, now time.Time) (server.Record, bool) {
		if r.Fence != from || r.State != server.StateUnknown || now.Before(r.LeaseUntil) {
			return r, false
		}
		r.LeaseUntil = now.Add(d)
		s.put(r)
		return r, true
	})
	return won, err
}

// operate lets move act on a record that no transaction holds. move returns the
// record to show, and whether it is as the caller wants it.
func (s *Store) operate(ctx context.Context, id server.ID,
	move func(server.Record, time.Time) (r server.Record, ok bool),
) (server.Record, bool, error) {
	if err := s.acquire(ctx, nil, id); err != nil {
		return server.Record{}, false, err
	}
	defer s.mu.Unlock()
	return s.moveRecord(id, move)
}

// moveRecord returns what move makes of a record. s.mu is held.
func (s *Store) moveRecord(id server.ID, move func(server.Record, time.Time) (r server.Record, ok bool)) (server.Record, bool, error) {
	r, ok := s.records[id]
	if !ok {
		return server.Record{}, false, server.ErrNotFound
	}
	now := s.clock()
	r, ok = move(r, now)
	return shown(r, now), ok, nil
}

// AuditLog implements [server.OperatorStore].
func (s *Store) AuditLog(ctx context.Context, id server.ID, limit int) ([]server.AuditEntry, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []server.AuditEntry
	for _, e := range slices.Backward(s.audit) {
		if len(found) < limit && (id == server.ID{} || id == e.ID) {
			found = append(found, e)
		}
	}
	return found, nil
}
