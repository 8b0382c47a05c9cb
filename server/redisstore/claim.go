package redisstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// margin is how long Redis keeps a record after a sweep may have deleted it, in milliseconds. It is the end of records
// where nobody sweeps, and more than the clocks of two servers differ.
const margin = int64(time.Hour / time.Millisecond)

// Claim implements [store.Store]. It ignores Asynchronous: no route that it is for works with this store.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	req = s.dropUnkept(req)
	b := s.bucketOf(req.ID)
	packed := packClaim(req)
	firstSent, opaque := any(""), "0"
	if !req.FirstSent.IsZero() {
		firstSent = req.FirstSent.UnixMicro()
	}
	if req.Effect == store.Opaque {
		opaque = "1"
	}
	value, err := s.do(ctx, claimScript, b, []string{b.record(req.ID), b.active, b.created},
		req.ID[:], packed[:atLease], micros(req.Lease), micros(req.Keep), firstSent, micros(req.Window), opaque, packed[atKeep:], margin)
	if err != nil {
		return store.Record{}, false, err
	}
	l := list(value)
	now, err := clock(l, 0)
	if err != nil {
		return store.Record{}, false, err
	}
	if len(l) == 2 {
		return newRecord(req, now), true, nil
	}
	raw := text(l, 2)
	if raw == "" {
		return store.Record{}, false, store.ErrExpired
	}
	r, err := decode(req.ID, raw, now)
	own := r.State == store.StateInProgress && r.Token == req.Token // the answer to that claim was lost
	return r, own, err
}

// dropUnkept returns req without what its record does not keep: see [Config].KeepRoutes.
func (s *Store) dropUnkept(req store.ClaimRequest) store.ClaimRequest {
	if req.Effect != store.Opaque {
		req.Memo = nil
		if !s.cfg.KeepRoutes {
			req.Route = ""
		}
	}
	return req
}

// newRecord returns the record that a claim has made at now.
func newRecord(req store.ClaimRequest, now time.Time) store.Record {
	r := store.Record{
		ID: req.ID, State: store.StateInProgress, Effect: req.Effect, Fingerprint: req.Fingerprint, Token: req.Token, Fence: 1,
		Parent: req.Parent, Now: now, CreatedAt: now,
		LeaseUntil: now.Add(time.Duration(micros(req.Lease)) * time.Microsecond),
		ExpiresAt:  now.Add(time.Duration(micros(req.Keep)) * time.Microsecond),
	}
	if !req.FirstSent.IsZero() {
		r.FirstSent = time.UnixMicro(req.FirstSent.UnixMicro()).UTC()
	}
	r.Route = req.Route
	if len(req.Memo) > 0 {
		r.Memo = append([]byte(nil), req.Memo...)
	}
	return r
}

// move sends a script on top of record.lua, and returns the code and the record of its reply.
func (s *Store) move(ctx context.Context, script *script, id store.ID, args ...any) (int64, store.Record, error) {
	b := s.bucketOf(id)
	value, err := s.do(ctx, script, b, b.move(id), append([]any{id[:], margin, s.channel()}, args...)...)
	if err != nil {
		return 0, store.Record{}, err
	}
	return parseMove(id, value)
}

// moveOn is move for a compare-and-set on the fence.
func (s *Store) moveOn(ctx context.Context, script *script, id store.ID, args ...any) (store.Record, bool, error) {
	code, r, err := s.move(ctx, script, id, args...)
	switch {
	case err != nil:
		return store.Record{}, false, err
	case code == codeAbsent:
		return store.Record{}, false, store.ErrNotFound
	case code == codeExpired:
		return store.Record{}, false, store.ErrExpired
	}
	return r, code == codeYes, nil
}

// TakeOver implements [store.Store].
func (s *Store) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	req = s.dropUnkept(req)
	return s.moveOn(ctx, takeOverScript, req.ID,
		from, int(req.Effect), req.Token[:], micros(req.Lease), micros(req.Keep), micros(req.Window), req.Route, req.Memo,
		int(req.Fingerprint.Version), req.Fingerprint.Sum[:])
}

// Quarantine implements [store.Store].
func (s *Store) Quarantine(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	return s.moveOn(ctx, quarantineScript, req.ID, req.From, int(req.To), req.Route)
}
