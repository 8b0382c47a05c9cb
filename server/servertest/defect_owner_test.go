package servertest

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/server"
)

var ownerDefects = []defect{
	{"takes over before the lease ends", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req server.ClaimRequest, from int64) (r server.Record, won bool, err error) {
			m.ahead(func() { r, won, err = m.Store.TakeOver(ctx, req, from) })
			return r, won, err
		}
	}, []string{
		"take-over: not before the lease ends by the store's clock",
		"take-over: not of any other state",
	}},
	{"lets a released key's lease run out", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
			if r, err := m.Store.Read(ctx, req.ID); err == nil && r.LeaseLeft() > 0 {
				return r, false, nil
			}
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{
		"take-over: a released key at once",
		"settle: effects that may have happened stay remembered",
		"tx cancel: a take-over waits for its end",
	}},
	{"takes over from whatever fence there is", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
			if r, err := m.Store.Read(ctx, req.ID); err == nil {
				from = r.Fence
			}
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{
		"take-over: only from the fence that was read",
		"model: a thousand random calls, as the model says",
	}},
	{"makes every take-over a winner", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
			r, _, err := m.Store.TakeOver(ctx, req, from)
			return r, err == nil, err
		}
	}, []string{
		"take-over: one of 32 wins, and each fence has one owner",
		"take-over: not of any other state",
		"bury: one burial or take-over of 32 wins",
	}},
	{"forgets the window of a take-over", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
			req.Window = 1000 * time.Hour
			return m.Store.TakeOver(ctx, req, from)
		}
	}, []string{"take-over: the window counts from the first claim"}},
	{"takes a guess for a fact", func(m *mutant) {
		m.claim = func(ctx context.Context, req server.ClaimRequest) (server.Record, bool, error) {
			if !req.Repeat {
				return m.Store.Claim(ctx, req)
			}
			r, err := m.Store.Read(ctx, req.ID)
			return r, err == nil && r.Token == req.Token, err
		}
	}, []string{"claim: a guess about the key decides nothing"}},
	{"takes over what is absent", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
			r, won, err := m.Store.TakeOver(ctx, req, from)
			if errors.Is(err, server.ErrNotFound) {
				return m.Store.Claim(ctx, req)
			}
			return r, won, err
		}
	}, []string{"take-over: an absent key is not found"}},
	{"takes the successor's fingerprint", func(m *mutant) {
		m.takeOver = func(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
			r, won, err := m.Store.TakeOver(ctx, req, from)
			if won {
				r.Fingerprint = req.Fingerprint
			}
			return r, won, err
		}
	}, []string{
		"claim: repeated after a lost answer it knows itself",
		"history: 32 owners at random over 12 keys",
		"renew: owners keep their keys, the others are named",
	}},
	{"keeps a key longer with each take-over", func(m *mutant) {
		m.show = func(r server.Record) server.Record {
			r.ExpiresAt = r.ExpiresAt.Add(time.Duration(r.Fence) * time.Minute)
			return r
		}
	}, []string{"take-over: the run changes, the key stays"}},
	{"counts no deaths", func(m *mutant) {
		m.show = func(r server.Record) server.Record { r.Deaths = 0; return r }
	}, []string{
		"take-over: deaths are counted, effects that may have happened are remembered",
		"bury: the dead only, and it is counted",
		"tx cancel: what each state was and becomes",
	}},
	{"forgets what may have run", func(m *mutant) {
		m.show = func(r server.Record) server.Record { r.MaybeRan = false; return r }
	}, []string{
		"bury: the dead only, and it is counted",
		"settle: effects that may have happened stay remembered",
		"settle: the run ends as it says",
	}},
	{"forgets what may have run with a transactional run", func(m *mutant) {
		m.show = func(r server.Record) server.Record {
			r.MaybeRan = r.MaybeRan && r.Effect != server.Transactional
			return r
		}
	}, []string{
		"settle: effects that may have happened stay remembered",
		"take-over: deaths are counted, effects that may have happened are remembered",
	}},
	{"buries the living", func(m *mutant) {
		m.bury = func(ctx context.Context, req server.BuryRequest) (r server.Record, ok bool, err error) {
			m.ahead(func() { r, ok, err = m.Store.Bury(ctx, req) })
			return r, ok, err
		}
	}, []string{"bury: nothing else"}},
	{"buries from whatever fence there is", func(m *mutant) {
		m.bury = func(ctx context.Context, req server.BuryRequest) (server.Record, bool, error) {
			r, err := m.Store.Read(ctx, req.ID)
			if err != nil {
				return r, false, err
			}
			req.From = r.Fence
			return m.Store.Bury(ctx, req)
		}
	}, []string{"bury: nothing else"}},
	{"makes every burial a success", func(m *mutant) {
		m.bury = func(ctx context.Context, req server.BuryRequest) (server.Record, bool, error) {
			r, _, err := m.Store.Bury(ctx, req)
			return r, err == nil, err
		}
	}, []string{
		"bury: one burial or take-over of 32 wins",
		"bury: nothing else",
	}},
	{"does not say what it buried", func(m *mutant) {
		m.bury = func(ctx context.Context, req server.BuryRequest) (server.Record, bool, error) {
			req.Route = ""
			return m.Store.Bury(ctx, req)
		}
	}, []string{"bury: the route of who buries is the record's"}},
	{"buries what is absent", func(m *mutant) {
		m.bury = func(ctx context.Context, req server.BuryRequest) (server.Record, bool, error) {
			r, ok, err := m.Store.Bury(ctx, req)
			if errors.Is(err, server.ErrNotFound) {
				err = nil
			}
			return r, ok, err
		}
	}, []string{"bury: an absent key is not found"}},
}
