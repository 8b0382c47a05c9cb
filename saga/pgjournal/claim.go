package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// claimRounds is how often a claim looks for unowned sagas if other transactions hold those
// that it found.
const claimRounds = 8

// Claim implements [journal.Journal]. It takes one statement where there are no unowned sagas,
// which writes nothing. It takes two for unowned sagas that no other transaction holds. It passes over sagas
// that another transaction holds, and looks for other sagas instead.
func (j *Journal) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	if err := checkClaim(req); err != nil {
		return nil, err
	}
	if req.PerPlan == 0 {
		req.PerPlan = req.Limit
	}
	claimed, err := j.claim(ctx, req)
	if err != nil && len(claimed) == 0 {
		return nil, wrap("claim", err)
	}
	records, unread := j.addAllMissing(ctx, claimed)
	if err = errors.Join(err, unread); err != nil { // they are claimed even so
		return nil, wrap("claim", errors.Join(journal.ErrFateUnknown, err))
	}
	return records, nil
}

func checkClaim(req journal.ClaimRequest) error {
	if err := checkLimit(req.Limit); err != nil {
		return err
	}
	if req.PerPlan < 0 {
		return fmt.Errorf("%w: PerPlan %d", ErrArgument, req.PerPlan)
	}
	return checkLength("Backoff", req.Backoff)
}

// claim returns what it claimed, also with an error.
func (j *Journal) claim(ctx context.Context, req journal.ClaimRequest) (claimed []stored, err error) {
	passed := []pgtype.UUID{}
	next := req
	for range claimRounds {
		ids, revisions, err := j.claimable(ctx, next, passed)
		if err != nil || len(ids) == 0 {
			return claimed, err
		}
		got, err := j.take(ctx, req.Engine, ids, revisions)
		claimed = append(claimed, got...)
		if err != nil || len(got) == len(ids) {
			return claimed, err
		}
		passed = append(passed, ids...)
		if next = remaining(req, claimed); next.Limit == 0 || len(next.Plans) == 0 {
			break
		}
	}
	return claimed, nil
}

// remaining is the part of a request that is still to be claimed. It leaves out each plan that
// has its share. PerPlan becomes the smallest number that any of the other plans still lacks.
func remaining(req journal.ClaimRequest, claimed []stored) journal.ClaimRequest {
	got := make(map[journal.PlanHash]int)
	for _, r := range claimed {
		got[r.Plan]++
	}
	next := req
	next.Limit -= len(claimed)
	next.Plans, next.Deferred = nil, nil
	for _, plan := range req.Plans {
		left := req.PerPlan - got[plan]
		if left <= 0 {
			continue
		}
		next.Plans, next.PerPlan = append(next.Plans, plan), min(next.PerPlan, left)
		if slices.Contains(req.Deferred, plan) {
			next.Deferred = append(next.Deferred, plan)
		}
	}
	return next
}

// claimable returns unowned sagas and their revisions. Its error is [journal.ErrLeaseLost] if the
// engine has no lease.
func (j *Journal) claimable(ctx context.Context, req journal.ClaimRequest, passed []pgtype.UUID) (ids []pgtype.UUID, revisions []int64, err error) {
	look := j.claimableOf
	if j.cfg.Distributed {
		look = j.claimableByPlan
	}
	found, err := look(ctx, req, passed)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range found {
		switch {
		case !c.hasLease:
			return nil, nil, journal.ErrLeaseLost
		case c.id.Valid:
			ids, revisions = append(ids, c.id), append(revisions, c.revision.Int64)
		}
	}
	return ids, revisions, nil
}

// A candidate is a saga that may be claimed. The zero ID says that there is none.
type candidate struct {
	hasLease bool
	id       pgtype.UUID
	revision pgtype.Int8
}

func (j *Journal) claimableOf(ctx context.Context, req journal.ClaimRequest, passed []pgtype.UUID) ([]candidate, error) {
	st := j.query.Claimable.Bind(pgx.NamedArgs{
		"engine": toUUID(req.Engine), "plans": hashes(req.Plans), "deferred": hashes(req.Deferred), "limit": int64(req.Limit), "per_plan": int64(req.PerPlan),
		"backoff": req.Backoff, "passed": passed,
	})
	return pgkit.AllUnder(ctx, j.db.Pool, j.query.ByIndex.Bind(nil), st, func(row pgx.CollectableRow) (c candidate, err error) {
		return c, row.Scan(&c.hasLease, &c.id, &c.revision)
	})
}

// take makes the engine the owner of the sagas that are still at these revisions. It passes over
// sagas that another transaction holds.
func (j *Journal) take(ctx context.Context, engine journal.EngineID, ids []pgtype.UUID, revisions []int64) ([]stored, error) {
	if j.cfg.Distributed {
		return j.takeByKey(ctx, engine, ids, revisions)
	}
	st := j.query.Claim.Bind(pgx.NamedArgs{"engine": toUUID(engine), "ids": ids, "revisions": revisions})
	return pgkit.RetryConflict(ctx, func() ([]stored, error) {
		return pgkit.RowsUnder(ctx, j.db.Writer, j.query.ByIndex.Bind(nil), st, j.sealer.scanClaimed)
	})
}

func hashes(plans []journal.PlanHash) [][]byte {
	all := make([][]byte, len(plans))
	for i := range plans {
		all[i] = plans[i][:]
	}
	return all
}
