package servertest

import (
	"context"
	"errors"
	"runtime"

	"github.com/fanonce/fanonce/server/store"
)

var planDefects = []defect{
	{"makes a plan's effects before it has the key", func(m *mutant) {
		m.planWith(func(p *mutantPlan) {
			p.commit = func(ctx context.Context, req store.ClaimRequest, s store.Settlement) (store.Record, bool, error) {
				other := req
				other.ID, other.FirstSent = newID(), other.FirstSent.AddDate(0, 0, 1)
				_, _, err := p.Plan.Commit(ctx, other, s)
				r, first, keyErr := m.Store.Plan().Commit(ctx, req, s)
				return r, first, errors.Join(err, keyErr)
			}
		})
	}, []string{
		"plan: a record in the way is returned, and nothing changes",
		"plan: of plans and claims one wins",
		"plan: a request that is too old commits nothing",
		"plan: an undo and a plan never both win",
	}},
	{"forgets the effects of a plan", func(m *mutant) {
		m.planWith(func(p *mutantPlan) {
			p.commit = func(ctx context.Context, req store.ClaimRequest, s store.Settlement) (store.Record, bool, error) {
				return m.Store.Plan().Commit(ctx, req, s)
			}
		})
	}, []string{"plan: claim, effects and answer commit together"}},
	{"takes the record of a plan that is repeated for another one's", func(m *mutant) {
		m.planWith(func(p *mutantPlan) {
			p.commit = func(ctx context.Context, req store.ClaimRequest, s store.Settlement) (store.Record, bool, error) {
				_, err := m.Store.Read(ctx, req.ID)
				r, first, commitErr := p.Plan.Commit(ctx, req, s)
				return r, first && err != nil, commitErr
			}
		})
	}, []string{"plan: repeated after a lost answer it knows itself"}},
	{"keeps what a plan has dropped", func(m *mutant) {
		m.planWith(func(p *mutantPlan) { p.discard = func() {} })
	}, []string{"plan: it can release the key, and drop its effects"}},
	{"commits plans that are too old", func(m *mutant) {
		m.planWith(func(p *mutantPlan) {
			p.commit = func(ctx context.Context, req store.ClaimRequest, s store.Settlement) (store.Record, bool, error) {
				req.Window = store.MaxRetention
				return p.Plan.Commit(ctx, req, s)
			}
		})
	}, []string{"plan: a request that is too old commits nothing"}},
	{"cancels without looking at plans", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			_, err := m.Store.Read(ctx, req.ID)
			runtime.Gosched()
			r, existed, cancelErr := m.Store.Cancel(ctx, req)
			return r, existed && err == nil, cancelErr
		}
	}, []string{"plan: an undo and a plan never both win"}},
}
