package servertest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A defect is a mistake that a store could make, and the rules that it breaks
// every time.
type defect struct {
	name   string
	mar    func(m *mutant)
	breaks []string
}

var defects = slices.Concat(claimDefects, ownerDefects, renewDefects, settleDefects, cancelDefects, sweepDefects, recordDefects, answerDefects, operatorDefects, txDefects, watchDefects, readerDefects)

var claimDefects = []defect{
	{"reads before it claims", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			_, err := m.Store.Read(ctx, req.ID)
			runtime.Gosched()
			r, won, claimErr := m.Store.Claim(ctx, req)
			if errors.Is(err, store.ErrNotFound) && claimErr == nil {
				r.Token, won = req.Token, true
			}
			return r, won, claimErr
		}
	}, []string{
		"claim: one of 32 concurrent claims wins, 50 times",
		"history: 32 owners at random over 12 keys",
	}},
	{"claims over tombstones", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := m.Store.Claim(ctx, req)
			return r, won || r.State == store.StateCancelled, err
		}
	}, []string{
		"cancel: an absent key gets a tombstone, and never runs",
		"cancel: a cancel and a first claim never both win",
	}},
	{"gives a released key to whoever claims", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := m.Store.Claim(ctx, req)
			if r.State == store.StateReleased {
				return m.Store.TakeOver(ctx, req, r.Fence)
			}
			return r, won, err
		}
	}, []string{
		"claim: a duplicate gets the record and changes nothing",
		"claim: a repeated claim does not win after its token lost the key",
	}},
	{"does not know a repeated claim", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			_, err := m.Store.Read(ctx, req.ID)
			r, won, claimErr := m.Store.Claim(ctx, req)
			return r, won && err != nil, claimErr
		}
	}, []string{
		"claim: a claim repeated with the same token wins again",
		"context: a context that ends during a claim leaves all of it or nothing",
	}},
	{"knows a token after it lost the key", func(m *mutant) {
		var seen sync.Map
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			_, again := seen.LoadOrStore(req.Token, true)
			r, won, err := m.Store.Claim(ctx, req)
			return r, won || again, err
		}
	}, []string{"claim: a repeated claim does not win after its token lost the key"}},
	{"extends the lease with each duplicate", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := m.Store.Claim(ctx, req)
			if err == nil && !won && r.State == store.StateInProgress {
				_, err = m.Store.Renew(ctx, []store.Owner{owner(r)}, req.Lease)
			}
			return r, won, err
		}
	}, []string{"claim: a duplicate gets the record and changes nothing"}},
	{"forgets the window of a claim", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			req.Window = 1000 * time.Hour
			return m.Store.Claim(ctx, req)
		}
	}, []string{"claim: a key first sent before the window never runs"}},
	{"refuses old retries of keys that have a record", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := m.Store.Claim(ctx, req)
			if err == nil && tooOldFor(r, req) {
				return store.Record{}, false, store.ErrExpired
			}
			return r, won, err
		}
	}, []string{"claim: the window does not apply to completed keys"}},
	{"refuses what is kept for a century", func(m *mutant) {
		m.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			if req.Keep > 100*365*24*time.Hour {
				return store.Record{}, false, errors.New("too long")
			}
			return m.Store.Claim(ctx, req)
		}
	}, []string{"claim: lengths of time up to MaxRetention are accepted"}},
	{"starts with fence 0", func(m *mutant) {
		m.show = func(r store.Record) store.Record { r.Fence--; return r }
	}, []string{"claim: the record has fence 1 and the values of the request"}},
}

func tooOldFor(r store.Record, req store.ClaimRequest) bool {
	return !req.FirstSent.IsZero() && req.FirstSent.Before(r.Now.Add(-req.Window))
}
