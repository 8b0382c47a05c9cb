package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// claimRounds is how often a claim looks again where others hold what it found.
const claimRounds = 8

// Claim implements [saga.Journal]. It takes one statement where there are no orphans, which
// writes nothing, and two for orphans that nobody else holds. It passes over sagas that
// somebody holds, and looks for others instead.
func (j *Journal) Claim(ctx context.Context, req saga.ClaimRequest) ([]saga.Record, error) {
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
	records, unread := j.allCompleted(ctx, claimed)
	if err = errors.Join(err, unread); err != nil { // they are claimed all the same
		return nil, wrap("claim", errors.Join(saga.ErrFateUnknown, err))
	}
	return records, nil
}

func checkClaim(req saga.ClaimRequest) error {
	if err := checkLimit(req.Limit); err != nil {
		return err
	}
	if req.PerPlan < 0 {
		return fmt.Errorf("%w: PerPlan %d", ErrArgument, req.PerPlan)
	}
	return checkLength("Backoff", req.Backoff)
}

// claim returns what it claimed, also with an error.
func (j *Journal) claim(ctx context.Context, req saga.ClaimRequest) (claimed []stored, err error) {
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

// remaining is what is left of a request. A plan that has got its share is out. The others
// get no more than the one of them that has got most.
func remaining(req saga.ClaimRequest, claimed []stored) saga.ClaimRequest {
	got := make(map[saga.PlanHash]int)
	for _, r := range claimed {
		got[r.Plan]++
	}
	next := req
	next.Limit -= len(claimed)
	next.Plans, next.Parked = nil, nil
	for _, plan := range req.Plans {
		left := req.PerPlan - got[plan]
		if left <= 0 {
			continue
		}
		next.Plans, next.PerPlan = append(next.Plans, plan), min(next.PerPlan, left)
		if slices.Contains(req.Parked, plan) {
			next.Parked = append(next.Parked, plan)
		}
	}
	return next
}

// claimable returns orphans, and the revisions at which they are. Its error is
// [saga.ErrLeaseLost] if the engine has no lease.
func (j *Journal) claimable(ctx context.Context, req saga.ClaimRequest, passed []pgtype.UUID) (ids []pgtype.UUID, revisions []int64, err error) {
	st := j.query.claimable.Bind(pgx.NamedArgs{
		"engine": uuid(req.Engine), "plans": hashes(req.Plans), "parked": hashes(req.Parked), "limit": int64(req.Limit), "per_plan": int64(req.PerPlan),
		"backoff": req.Backoff, "passed": passed,
	})
	type orphan struct {
		hasLease bool
		id       pgtype.UUID
		revision pgtype.Int8
	}
	found, err := pgkit.AllUnder(ctx, j.pool, j.query.byIndex.Bind(nil), st, func(row pgx.CollectableRow) (o orphan, err error) {
		return o, row.Scan(&o.hasLease, &o.id, &o.revision)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, o := range found {
		switch {
		case !o.hasLease:
			return nil, nil, saga.ErrLeaseLost
		case o.id.Valid:
			ids, revisions = append(ids, o.id), append(revisions, o.revision.Int64)
		}
	}
	return ids, revisions, nil
}

// take makes the engine the owner of those that are still at these revisions, and that
// nobody holds.
func (j *Journal) take(ctx context.Context, engine saga.EngineID, ids []pgtype.UUID, revisions []int64) ([]stored, error) {
	st := j.query.claim.Bind(pgx.NamedArgs{"engine": uuid(engine), "ids": ids, "revisions": revisions})
	return pgkit.RetryConflict(ctx, func() ([]stored, error) {
		return pgkit.RowsUnder(ctx, j.writer, j.query.byIndex.Bind(nil), st, j.sealer.scanStored)
	})
}

func hashes(plans []saga.PlanHash) [][]byte {
	all := make([][]byte, len(plans))
	for i := range plans {
		all[i] = plans[i][:]
	}
	return all
}
