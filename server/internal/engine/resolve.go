package engine

import (
	"context"
	"errors"

	"github.com/fanonce/fanonce/server/store"
)

// A Resolution is a decision about a key whose outcome is unknown. The zero Resolution
// leaves it unknown.
type Resolution struct {
	To       store.State // 0: still unknown
	MaybeRan bool        // an undo is told that some run may have had effects
	Keeps    bool        // MaybeRan stays as it was
	Answer   store.Answer
	Text     string // for the audit log
}

// Resolve applies r to a record as it was read. recoveryAttempts is the record's count of dead owners from now on. A person
// starts again at 0. A reconciler keeps the count: otherwise a key whose every run dies would never be quarantined.
//
// If the record has moved on, Resolve returns it as it stands, and false.
func (e *Engine) Resolve(ctx context.Context, rec *store.Record, r Resolution, recoveryAttempts int, by store.Audit) (store.Record, bool, error) {
	req := store.ResolveRequest{
		ID: rec.ID, From: rec.Fence, To: r.To, Token: NewToken(), ReplayFor: e.cfg.ReplayFor, KeepAnswer: e.cfg.KeepAnswer, Keep: e.cfg.Keep,
		RecoveryAttempts: recoveryAttempts, MaybeRan: r.MaybeRan || (r.Keeps && mayHaveRun(rec)), By: by,
	}
	if r.To == store.StateCompleted {
		owner := store.Owner{ID: rec.ID, Token: req.Token, Fence: req.From + 1}
		req.Answer = e.sealAnswer(ctx, e.ShownRoute(rec.Route), owner, r.Answer)
	}
	now, resolved, err := e.store.Resolve(ctx, req)
	if errors.Is(err, store.ErrFateUnknown) && ctx.Err() == nil {
		now, resolved, err = e.store.Resolve(ctx, req) // the token finds its own resolution
	}
	if err == nil && resolved {
		e.observe(ctx, store.Event{Kind: store.EventResolved, Route: e.ShownRoute(rec.Route), ID: rec.ID})
	}
	return now, resolved, err
}

// mayHaveRun reports whether an undo of the record would now be told that the call may have run.
func mayHaveRun(rec *store.Record) bool {
	fate, _ := store.FateOf(*rec, true) // 0 for a run within its lease: no resolution ends that
	return fate == store.MaybeRan
}

// Forget deletes a record that is still at fence from and not in progress within its
// lease. If the record has moved on, Forget returns it as it stands, and false.
func (e *Engine) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.StoreTimeout)
	defer cancel()
	rec, forgotten, err := e.store.Forget(ctx, id, from, by)
	e.cache.drop(id)
	if err == nil && forgotten {
		e.observe(ctx, store.Event{Kind: store.EventForgotten, Route: e.ShownRoute(rec.Route), ID: id})
	}
	return rec, forgotten, err
}
