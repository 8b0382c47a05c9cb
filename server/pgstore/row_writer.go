package pgstore

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// claimTimes are the parts of a new record that the server decides.
type claimTimes struct{ created, leaseUntil, expires time.Time }

// A settlement is the end of a run as its owner asks for it.
type settlement struct {
	owner store.Owner
	end   store.Settlement
}

func claimOne(q *queries, lockTimeout string, req store.ClaimRequest, asynchronous bool) pgkit.Statement {
	return q.claim.Bind(claimArgs(lockTimeout, req, asynchronous))
}

func claimArgs(lockTimeout string, req store.ClaimRequest, asynchronous bool) pgx.NamedArgs {
	return pgx.NamedArgs{
		"key":                 uuid(req.ID),
		"token":               uuid(req.Token),
		"effect":              int16(req.Effect),
		"fingerprint_version": int16(req.Fingerprint.Version),
		"fingerprint":         req.Fingerprint.Sum[:],
		"parent":              callerOf(req),
		"first_sent":          timestamp(req.FirstSent),
		"lease":               req.Lease,
		"keep":                req.Keep,
		"window":              req.Window,
		"lock_timeout":        lockTimeout,
		"route":               routeOf(req),
		"memo":                req.Memo,
		"asynchronous":        asynchronous,
	}
}

func scanClaimTimes(row pgx.CollectableRow) (t claimTimes, err error) {
	return t, row.Scan(&t.created, &t.leaseUntil, &t.expires)
}

// settleArgs returns the arguments of a settlement's statement by name.
func settleArgs(o store.Owner, s store.Settlement, lockTimeout string) func(name string) (any, bool) {
	return func(name string) (any, bool) {
		switch name {
		case "key":
			return uuid(o.ID), true
		case "token":
			return uuid(o.Token), true
		case "fence":
			return o.Fence, true
		case "state":
			return int16(s.State), true
		case "status":
			status, _ := answerOf(s)
			return status, true
		case "envelope":
			_, envelope := answerOf(s)
			return envelope, true
		case "replay_for":
			return replayFor(s), true
		case "keep_answer":
			return intervalOrNull(s.KeepAnswer), true
		case "maybe_ran":
			return s.MaybeRan, true
		case "lease_left":
			return leaseLeft(s), true
		case "lock_timeout":
			return lockTimeout, true
		default:
			return nil, false
		}
	}
}

// scanSettled is for statements that return a row, with nothing in it that counts, if
// they settled.
func scanSettled(pgx.CollectableRow) (bool, error) { return true, nil }

// answerOf returns null where s has no answer to keep.
func answerOf(s store.Settlement) (status pgtype.Int4, envelope []byte) {
	if s.State != store.StateCompleted {
		return status, nil
	}
	return pgtype.Int4{Int32: int32(s.Answer.Status), Valid: true}, s.Answer.Envelope //nolint:gosec // checkSettlement bounds it
}

// callerOf is null for a request without a parent.
func callerOf(req store.ClaimRequest) pgtype.UUID {
	return pgtype.UUID{Bytes: req.Parent, Valid: req.Parent != store.ID{}}
}

// kept is req without a Route and a Memo that the record will not have: only the reconciler of an Opaque record needs
// them.
func (s *Store) kept(req store.ClaimRequest) store.ClaimRequest {
	if req.Effect == store.Opaque {
		return req
	}
	req.Memo = nil
	if !s.cfg.KeepRoutes {
		req.Route = ""
	}
	return req
}

// routeOf is null for a record without a route.
func routeOf(req store.ClaimRequest) pgtype.Text {
	return pgtype.Text{String: req.Route, Valid: req.Route != "" || req.Effect == store.Opaque}
}

// replayFor is null where no answer is to be replayed.
func replayFor(s store.Settlement) pgtype.Interval {
	if s.State != store.StateCompleted {
		return pgtype.Interval{}
	}
	return interval(s.ReplayFor)
}

// leaseLeft is how much of a lease is left at most: nothing for a run that counts as dead or unknown, and
// null where it does not matter.
func leaseLeft(s store.Settlement) pgtype.Interval {
	return pgtype.Interval{Valid: s.State == store.StateInProgress || s.State == store.StateUnknown}
}

func interval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// intervalOrNull makes 0 a null.
func intervalOrNull(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: d > 0}
}

func uuid(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

// timestamp makes the zero time a null.
func timestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
