package servertest

import (
	"context"
	"errors"
	"sync"

	"github.com/fanonce/fanonce/server/store"
)

// asOwner settles for the present owner of the key. mend chooses the parts of the owner that are corrected.
func (m *mutant) asOwner(mend func(o *store.Owner, r store.Record)) func(context.Context, store.Owner, store.Settlement) error {
	return func(ctx context.Context, o store.Owner, s store.Settlement) error {
		if r, err := m.Store.Read(ctx, o.ID); err == nil {
			mend(&o, r)
		}
		return m.Store.Settle(ctx, o, s)
	}
}

var settleDefects = []defect{
	{"ignores the fence", func(m *mutant) {
		m.settle = m.asOwner(func(o *store.Owner, r store.Record) { o.Fence = r.Fence })
	}, []string{
		"settle: token and fence must both be the owner's",
		"model: a thousand random calls, as the model says",
	}},
	{"ignores the token", func(m *mutant) {
		m.settle = m.asOwner(func(o *store.Owner, r store.Record) { o.Token = r.Token })
	}, []string{"settle: token and fence must both be the owner's"}},
	{"ignores the owner", func(m *mutant) {
		m.settle = m.asOwner(func(o *store.Owner, r store.Record) { *o = owner(r) })
	}, []string{
		"settle: an owner whose key was taken over changes nothing",
		"settle: an owner and its successor never both win",
	}},
	{"tells zombies that all is well", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if err := m.Store.Settle(ctx, o, s); !errors.Is(err, store.ErrLeaseLost) {
				return err
			}
			return nil
		}
	}, []string{
		"history: 32 owners at random over 12 keys",
		"settle: an owner and its successor never both win",
		"settle: a completed record never changes",
	}},
	{"forgets failed attempts", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			s.FailedAttempts = 0
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{"settle: failed attempts are counted until the key is completed or decided about"}},
	{"refuses who is late", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if r, err := m.Store.Read(ctx, o.ID); err == nil && r.State == store.StateInProgress && r.LeaseLeft() <= 0 {
				return store.ErrLeaseLost
			}
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{"settle: an owner past its lease settles if nobody took the key over"}},
	{"lets the lease of who counts as dead run on", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if r, err := m.Store.Read(ctx, o.ID); s.State == store.StateInProgress && err == nil && owner(r) == o {
				return nil
			}
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{"settle: a run that is settled as dead can be taken over at once"}},
	{"leaves an unknown key to a person although its owner knows", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if r, err := m.Store.Read(ctx, o.ID); err == nil && r.State == store.StateUnknown {
				return store.ErrLeaseLost
			}
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{
		"settle: an owner whose record became unknown settles it if nobody resolved it",
		"model: a thousand random calls, as the model says",
	}},
	{"does not know a repeated completion", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if r, err := m.Store.Read(ctx, o.ID); err == nil && r.State == store.StateCompleted {
				return store.ErrLeaseLost
			}
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{
		"settle: a completion repeated after a lost answer is no error",
		"context: a context that ends during a settlement leaves all of it or nothing",
		"tx: a completion whose answer was lost can be repeated",
	}},
	{"keeps the last answer, not the first", func(m *mutant) {
		var last sync.Map
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			err := m.Store.Settle(ctx, o, s)
			if err == nil {
				last.Store(o.ID, s.Answer)
			}
			return err
		}
		m.show = func(r store.Record) store.Record {
			if a, ok := last.Load(r.ID); ok && r.State == store.StateCompleted {
				r.Answer, _ = a.(store.Answer)
			}
			return r
		}
	}, []string{
		"record: records share no memory with callers",
		"settle: a completed record never changes",
	}},
	{"acknowledges a settlement and drops it", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			if s.State == store.StateCompleted {
				return ctx.Err()
			}
			return m.Store.Settle(ctx, o, s)
		}
	}, []string{
		"settle: the record has the values of the settlement",
		"context: a context that ends during a settlement leaves all of it or nothing",
		"model: a thousand random calls, as the model says",
	}},
	{"tells a zombie beside its successor that all is well", func(m *mutant) {
		m.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			err := m.Store.Settle(ctx, o, s)
			if r, readErr := m.Store.Read(ctx, o.ID); readErr == nil && r.Fence > o.Fence && r.State == store.StateInProgress {
				return nil
			}
			return err
		}
	}, []string{
		"settle: an owner and its successor never both win",
		"settle: token and fence must both be the owner's",
		"settle: an owner whose key was taken over changes nothing",
	}},
}
