package memstore

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/server/store"
)

var _ store.OneCommitStore = (*Store)(nil)

// Plan implements [store.OneCommitStore]. The writes are those of Do of the [Transaction] that the plan's ctx carries.
// A failure that Fail sets is that of each Commit of an absent key.
func (s *Store) Plan() store.Plan {
	return &plan{&tx{store: s, ended: make(chan struct{}), pending: make(map[store.ID]store.Record)}}
}

// A plan is a transaction that holds no record before it commits.
type plan struct{ tx *tx }

// NewContext implements [store.Plan], for [Tx].
func (p *plan) NewContext(ctx context.Context) context.Context { return p.tx.NewContext(ctx) }

// Discard implements [store.Plan].
func (p *plan) Discard() {
	p.tx.store.mu.Lock()
	defer p.tx.store.mu.Unlock()
	p.tx.done, p.tx.writes, p.tx.failure, p.tx.refusal = true, nil, nil, nil
}

// Commit implements [store.Plan]. It waits as Claim does.
func (p *plan) Commit(ctx context.Context, req store.ClaimRequest, end store.Settlement) (store.Record, bool, error) {
	if err := checkPlan(req, end); err != nil {
		return store.Record{}, false, err
	}
	s := p.tx.store
	if err := s.undecided(ctx, req.ID); err != nil {
		return store.Record{}, false, err
	}
	defer s.mu.Unlock()
	p.tx.done = true
	now := s.clock()
	if r, ok := s.records[req.ID]; ok {
		own := r.Token == req.Token && r.Fence == 1 && r.State != store.StateInProgress
		return shown(r, now), own, nil
	}
	switch {
	case tooOld(req.FirstSent, req.Window, now):
		return store.Record{}, false, store.ErrExpired
	case p.tx.failure != nil:
		return store.Record{}, false, p.tx.failure
	case p.tx.refusal != nil:
		return store.Record{}, false, p.tx.refusal
	}
	for _, write := range p.tx.writes {
		write()
	}
	r := settled(claimed(s.kept(req), now), end, now)
	s.put(r)
	return shown(r, now), true, nil
}

func checkPlan(req store.ClaimRequest, end store.Settlement) error {
	if err := checkClaim(req); err != nil {
		return err
	}
	if end.State != store.StateCompleted && end.State != store.StateReleased {
		return fmt.Errorf("%w: cannot commit a plan to State %d", ErrArgument, end.State)
	}
	return checkSettlement(end)
}
