package pgjournal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Start implements [saga.Journal]: one statement for a new saga, two for one that
// is there, which write nothing. It waits, for at most Config.LockTimeout, where a
// transaction is about to store the same saga.
func (j *Journal) Start(ctx context.Context, req saga.StartRequest) (saga.Record, bool, error) {
	if err := checkStart(req); err != nil {
		return saga.Record{}, false, err
	}
	sealed, err := j.sealer.starting(req)
	if err != nil {
		return saga.Record{}, false, wrap("start", err)
	}
	var r saga.Record // filled in by reference: it is large, and this far from the bottom of a stack
	for {
		created, err := j.start(ctx, &sealed, &r)
		if errors.Is(err, saga.ErrNotFound) && ctx.Err() == nil {
			continue // what was in the way has been swept since
		}
		return r, created, wrap("start", err)
	}
}

func (j *Journal) start(ctx context.Context, req *starting, r *saga.Record) (created bool, err error) {
	sent := ctx
	if saga.Stays(ctx) {
		sent = pgkit.Staying(ctx)
	}
	var at time.Time
	inserted, err := pgkit.RetryConflict(ctx, func() (ok bool, err error) {
		at, ok, err = j.rows.start(sent, *req)
		return ok, err
	})
	if err != nil {
		return false, err
	}
	if inserted {
		*r = newRecord(&req.StartRequest, at)
		return true, nil
	}
	// Its snapshot is younger than the conflict. Calls are sent on the strength of
	// what it finds, or an answer given.
	*r, err = j.look(ctx, req.ID, always)
	return err == nil && !req.Engine.IsZero() && r.Engine == req.Engine && r.Revision == 1, err
}

// newRecord is what the insert wrote.
func newRecord(req *saga.StartRequest, at time.Time) saga.Record {
	r := saga.Record{
		ID: req.ID, Scope: req.Scope, Key: req.Key,
		Name: req.Name, Version: req.Version, Plan: req.Plan,
		InputHash: req.InputHash, Input: slices.Clone(req.Input),
		Status: saga.Running, Engine: req.Engine, Fence: firstFence(*req), Revision: 1,
		Now: at.UTC(), CreatedAt: at.UTC(),
	}
	if req.Engine.IsZero() {
		r.Clean, r.WakeAt = true, r.CreatedAt
	} else {
		r.FirstClaimedAt = r.CreatedAt
	}
	return r
}
