package servertest

import (
	"context"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var operatorDefects = []defect{
	{"resolves without a log", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.auditPage = func(context.Context, store.AuditRequest) ([]store.AuditEntry, error) { return nil, nil }
		})
	}, []string{
		"operator: the audit log has actor and reason, and outlives the record",
		"operator: one of 32 concurrent resolutions wins",
		"operator: a resolution repeated with the same token succeeds again",
	}},
	{"counts keys that have moved on", func(m *mutant) {
		var mu sync.Mutex
		var most store.Attention
		m.readWith(func(r *mutantReader) {
			r.attention = func(ctx context.Context) (store.Attention, error) {
				a, err := r.Reader.Attention(ctx)
				mu.Lock()
				defer mu.Unlock()
				most.Unknown, most.Quarantined = max(most.Unknown, a.Unknown), max(most.Quarantined, a.Quarantined)
				most.DeadLetters, most.Oldest = max(most.DeadLetters, a.DeadLetters), max(most.Oldest, a.Oldest)
				return most, err
			}
		})
	}, []string{
		"attention: a key is counted and listed exactly while it needs a person",
		"attention: a dead letter is listed until its key is forgotten or swept",
	}},
	{"lists each completed key as a dead letter", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.list = func(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
				if !req.DeadLetters {
					return r.Reader.List(ctx, req)
				}
				return r.browseOldestFirst(ctx, store.BrowseRequest{States: []store.State{store.StateCompleted}, Limit: req.Limit})
			}
		})
	}, []string{"attention: a dead letter is listed until its key is forgotten or swept"}},
	{"logs what it did not do", func(m *mutant) {
		m.readWith(func(r *mutantReader) {
			r.auditPage = func(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
				entries, err := r.Reader.AuditPage(ctx, req)
				return append(entries, store.AuditEntry{ID: req.ID}), err
			}
		})
	}, []string{"operator: only a stuck key at the expected fence is resolved"}},
	{"resolves from any fence", func(m *mutant) {
		m.resolve = func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
			if r, err := m.Store.Read(ctx, req.ID); err == nil {
				req.From = r.Fence
			}
			return m.Store.Resolve(ctx, req)
		}
	}, []string{
		"operator: only a stuck key at the expected fence is resolved",
	}},
	{"takes a lost race for won", func(m *mutant) {
		m.resolve = func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
			r, _, err := m.Store.Resolve(ctx, req)
			return r, true, err
		}
	}, []string{
		"operator: one of 32 concurrent resolutions wins",
		"operator: only a stuck key at the expected fence is resolved",
	}},
	{"does not know a repeated resolution", func(m *mutant) {
		m.resolve = func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
			before, _ := m.Store.Read(ctx, req.ID)
			r, ok, err := m.Store.Resolve(ctx, req)
			return r, ok && before.Token != req.Token, err
		}
	}, []string{"operator: a resolution repeated with the same token succeeds again"}},
	{"leaves the dead owner its fence and token", func(m *mutant) {
		m.resolve = func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
			r, err := m.Store.Read(ctx, req.ID)
			if err != nil {
				return r, false, err
			}
			if req.To == store.StateCompleted {
				err = m.Store.Settle(ctx, owner(r), store.Settlement{State: req.To, Answer: req.Answer, ReplayFor: req.ReplayFor})
				after, _ := m.Store.Read(ctx, req.ID)
				return after, err == nil, nil
			}
			return m.Store.Resolve(ctx, req)
		}
	}, []string{
		"operator: the owner of a resolved key has lost it",
		"operator: a stuck key gets the state of the resolution",
	}},
	{"forgets what was said about earlier runs", func(m *mutant) {
		m.resolve = func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
			req.MaybeRan = false
			return m.Store.Resolve(ctx, req)
		}
	}, []string{"operator: a stuck key gets the state of the resolution"}},
	{"lets a resolved tombstone go early", func(m *mutant) {
		m.resolve = func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
			req.Keep = 0
			return m.Store.Resolve(ctx, req)
		}
	}, []string{"operator: a tombstone made by Resolve is kept as long as one made by Cancel"}},
	{"forgets the living", func(m *mutant) {
		m.forget = func(ctx context.Context, id store.ID, from int64, by store.Audit) (r store.Record, ok bool, err error) {
			m.ahead(func() { r, ok, err = m.Store.Forget(ctx, id, from, by) })
			return r, ok, err
		}
	}, []string{"operator: Forget deletes every key but a live one, and the key is new again"}},
	{"forgets without a record of it", func(m *mutant) {
		m.forget = func(ctx context.Context, id store.ID, from int64, _ store.Audit) (store.Record, bool, error) {
			return m.Store.Forget(ctx, id, from, store.Audit{})
		}
	}, []string{"operator: the audit log has actor and reason, and outlives the record"}},
	{"finds what is not there", func(m *mutant) {
		m.deferral = func(context.Context, store.ID, int64, time.Duration) (bool, error) { return false, nil }
	}, []string{
		"operator: absent keys are not found",
		"operator: one of 32 concurrent deferrals of an unknown key wins",
	}},
	{"defers for everybody who asks", func(m *mutant) {
		m.deferral = func(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
			_, err := m.Store.Defer(ctx, id, from, d)
			return true, err
		}
	}, []string{
		"operator: one of 32 concurrent deferrals of an unknown key wins",
		"operator: only an unknown key is deferred",
	}},
	{"counts deaths anew after every resolution", func(m *mutant) {
		m.resolve = func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
			req.RecoveryAttempts = 0
			return m.Store.Resolve(ctx, req)
		}
	}, []string{"operator: a stuck key gets the state of the resolution"}},
	{"keeps the lease of what became unknown", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if r.State == store.StateUnknown {
				r.LeaseUntil = r.CreatedAt.Add(long)
			}
			return r
		}
	}, []string{"operator: the lease of a key ends when the key becomes unknown"}},
	{"keeps no memo", func(m *mutant) {
		m.show = func(r store.Record) store.Record { r.Route, r.Memo = "", nil; return r }
	}, []string{"operator: only Opaque claims keep their route and memo"}},
}
