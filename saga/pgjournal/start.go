package pgjournal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// Start implements [journal.Journal]. It takes one statement for a new saga. For a saga that is
// stored already it takes two, which write nothing. If another transaction is about to store the
// same saga, Start waits for at most Config.LockTimeout.
func (j *Journal) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	if err := checkStart(req); err != nil {
		return journal.Record{}, false, err
	}
	sealed, err := j.sealer.sealStart(req)
	if err != nil {
		return journal.Record{}, false, wrap("start", err)
	}
	var r journal.Record // filled in by reference: it is large, and this far from the bottom of a stack
	for {
		created, err := j.start(ctx, &sealed, &r)
		if errors.Is(err, journal.ErrNotFound) && ctx.Err() == nil {
			continue // the conflicting saga has been swept since
		}
		return r, created, wrap("start", err)
	}
}

func (j *Journal) start(ctx context.Context, req *starting, r *journal.Record) (created bool, err error) {
	sent := ctx
	if journal.Stays(ctx) {
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
	// The snapshot of this read is younger than the conflict. The caller relies on the record to
	// send calls or to give an answer.
	*r, err = j.look(ctx, req.ID, always)
	return err == nil && !req.Engine.IsZero() && r.Engine == req.Engine && r.Revision == 1, err
}

// newRecord returns the record that the insert wrote.
func newRecord(req *journal.StartRequest, at time.Time) journal.Record {
	r := journal.Record{
		ID: req.ID, Scope: req.Scope, Key: req.Key,
		Name: req.Name, Version: req.Version, Plan: req.Plan,
		InputHash: req.InputHash, Input: slices.Clone(req.Input), Trace: req.Trace,
		Status: journal.Running, Engine: req.Engine, Fence: firstFence(*req), Revision: 1,
		Times: journal.Times{Now: at.UTC(), CreatedAt: at.UTC()},
	}
	if req.Engine.IsZero() {
		r.Clean, r.WakeAt = true, r.CreatedAt
		if at := req.At.Truncate(time.Microsecond); at.After(r.WakeAt) {
			r.WakeAt = at.UTC()
		}
	} else {
		r.FirstClaimedAt = r.CreatedAt
	}
	return r
}
