package servertest

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var ownerDefects = []defect{
	{"takes over before the lease ends", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (r store.Record, won bool, err error) {
			m.ahead(func() { r, won, err = m.Store.TakeOver(ctx, req, from) })
			return r, won, err
		}
	}, []string{
		"take-over: a key is not taken over before its lease ends by the store's clock",
		"take-over: no key in another state is taken over",
	}},
	{"lets a released key's lease run out", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			if r, err := m.Store.Read(ctx, req.ID); err == nil && r.LeaseLeft() > 0 {
				return r, false, nil
			}
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{
		"take-over: a released key is taken over at once",
		"settle: MaybeRan stays set",
		"tx cancel: a take-over waits for the end of the transaction",
	}},
	{"takes over from whatever fence there is", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			if r, err := m.Store.Read(ctx, req.ID); err == nil {
				from = r.Fence
			}
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{
		"take-over: a take-over from another fence changes nothing",
		"model: a thousand random calls, as the model says",
	}},
	{"makes every take-over a winner", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			r, _, err := m.Store.TakeOver(ctx, req, from)
			return r, err == nil, err
		}
	}, []string{
		"take-over: one of 32 concurrent take-overs wins, and each fence has one owner",
		"take-over: no key in another state is taken over",
		"quarantine: one of 32 concurrent quarantines and take-overs wins",
	}},
	{"forgets the window of a take-over", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			req.Window = 1000 * time.Hour
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{"take-over: the window counts from the first claim"}},
	{"takes over what is absent", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			r, won, err := m.Store.TakeOver(ctx, req, from)
			if errors.Is(err, store.ErrNotFound) {
				return m.Store.Claim(ctx, req)
			}
			return r, won, err
		}
	}, []string{"take-over: an absent key is not found"}},
	{"takes the successor's fingerprint", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			r, won, err := m.Store.TakeOver(ctx, req, from)
			if won {
				r.Fingerprint = req.Fingerprint
			}
			return r, won, err
		}
	}, []string{
		"claim: a claim repeated with the same token wins again",
		"history: 32 owners at random over 12 keys",
		"renew: owners are renewed, and lost owners are named",
		"take-over: only a released key without effects takes the request's fingerprint",
	}},
	{"keeps the fingerprint of what was refused", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			before, _ := m.Store.Read(ctx, req.ID)
			req.Fingerprint = before.Fingerprint
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{"take-over: only a released key without effects takes the request's fingerprint"}},
	{"keeps a key longer with each take-over", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			r.ExpiresAt = r.ExpiresAt.Add(time.Duration(r.Fence) * time.Minute)
			return r
		}
	}, []string{"take-over: the owner changes, and the values of the key stay"}},
	{"counts no deaths", func(m *mutant) {
		m.show = func(r store.Record) store.Record { r.RecoveryAttempts = 0; return r }
	}, []string{
		"take-over: deaths are counted, and MaybeRan is set",
		"quarantine: a dead run is quarantined, and its death is counted",
		"tx cancel: each state becomes what it must, and the record of before is returned",
	}},
	{"forgets what may have run", func(m *mutant) {
		m.show = func(r store.Record) store.Record { r.MaybeRan = false; return r }
	}, []string{
		"quarantine: a dead run is quarantined, and its death is counted",
		"settle: MaybeRan stays set",
		"settle: the record has the values of the settlement",
	}},
	{"forgets what may have run with a transactional run", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			r.MaybeRan = r.MaybeRan && r.Effect != store.Transactional
			return r
		}
	}, []string{
		"settle: MaybeRan stays set",
		"take-over: deaths are counted, and MaybeRan is set",
	}},
	{"quarantines the living", func(m *mutant) {
		m.quarantine = func(ctx context.Context, req store.QuarantineRequest) (r store.Record, ok bool, err error) {
			m.ahead(func() { r, ok, err = m.Store.Quarantine(ctx, req) })
			return r, ok, err
		}
	}, []string{"quarantine: no other record is quarantined"}},
	{"quarantines from whatever fence there is", func(m *mutant) {
		m.quarantine = func(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
			r, err := m.Store.Read(ctx, req.ID)
			if err != nil {
				return r, false, err
			}
			req.From = r.Fence
			return m.Store.Quarantine(ctx, req)
		}
	}, []string{"quarantine: no other record is quarantined"}},
	{"makes every quarantine a success", func(m *mutant) {
		m.quarantine = func(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
			r, _, err := m.Store.Quarantine(ctx, req)
			return r, err == nil, err
		}
	}, []string{
		"quarantine: one of 32 concurrent quarantines and take-overs wins",
		"quarantine: no other record is quarantined",
	}},
	{"does not say what it quarantined", func(m *mutant) {
		m.quarantine = func(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
			req.Route = ""
			return m.Store.Quarantine(ctx, req)
		}
	}, []string{"quarantine: the record gets the route of the request"}},
	{"quarantines what is absent", func(m *mutant) {
		m.quarantine = func(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
			r, ok, err := m.Store.Quarantine(ctx, req)
			if errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			return r, ok, err
		}
	}, []string{"quarantine: an absent key is not found"}},
}
