package pgstore

import (
	"bytes"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// combined sends the writes that wait at the same time in one commit. Claims go
// before settlements in all processes: a transaction that has locked records
// waits for no key.
type combined struct {
	store       *Store
	claims      *pgkit.BatchKind[store.ClaimRequest, claimTimes]
	settlements *pgkit.BatchKind[settlement, bool]
	apart       *pgkit.BatchKind[settlement, bool] // those with answers in partitions
}

func newCombined(s *Store, c *pgkit.Combiner) *combined {
	w := &combined{store: s}
	w.claims = pgkit.NewBatchKind(c, pgkit.BatchKindConfig[store.ClaimRequest, claimTimes]{
		One:     func(req store.ClaimRequest) pgkit.Statement { return claimOne(s.query(), s.db.Briefly, req, false) },
		ScanOne: scanClaimTimes,
		OneAsynchronous: func(req store.ClaimRequest) pgkit.Statement {
			return claimOne(s.query(), s.db.Briefly, req, true)
		},
		Asynchronous: s.asynchronous,
		Many:         w.claimMany,
		Compare:      func(a, b store.ClaimRequest) int { return bytes.Compare(a.ID[:], b.ID[:]) },
		Place:        func(req store.ClaimRequest) pgkit.Place { return s.db.Placement.Of(req.ID) },
		Bytes:        func(req store.ClaimRequest) int { return len(req.Memo) },
	})
	w.settlements = w.settleKind(c, func(q *queries) (one, many, alike pgkit.Query) { return q.Settle, q.SettleMany, q.SettleManyAlike })
	w.apart = w.settleKind(c, func(q *queries) (one, many, alike pgkit.Query) {
		return q.SettlePartitioned, q.SettleManyPartitioned, pgkit.Query{}
	})
	return w
}

// claimMany makes the statement for several claims. Claims of one guard differ in little, and then
// only the columns in which they differ are arrays.
func (c *combined) claimMany(reqs []store.ClaimRequest) (pgkit.Statement, func(pgx.CollectableRow) (int, claimTimes, error)) {
	index := make(map[store.ID]int, len(reqs))
	first := make([]*store.ClaimRequest, 0, len(reqs))
	for i := range reqs {
		if _, twice := index[reqs[i].ID]; twice {
			continue // it finds the record of the first, or comes again where that was too old
		}
		index[reqs[i].ID] = i
		first = append(first, &reqs[i])
	}
	if c.store.query().distributed {
		return c.claimRows(first), func(row pgx.CollectableRow) (int, claimTimes, error) { return scanClaim(row, index) }
	}
	args := claimArrays(first)
	if isAlike(first, claimsAlike) {
		req := first[0]
		args["effect"], args["fingerprint_version"] = int16(req.Effect), int16(req.Fingerprint.Version)
		args["lease"], args["keep"], args["window"], args["route"] = req.Lease, req.Keep, req.Window, routeOf(*req)
		return c.store.query().ClaimManyAlike.Bind(args), func(row pgx.CollectableRow) (int, claimTimes, error) {
			return scanClaimAlike(row, index, req)
		}
	}
	addClaimArrays(args, first)
	return c.store.query().ClaimMany.Bind(args), func(row pgx.CollectableRow) (int, claimTimes, error) { return scanClaim(row, index) }
}

// claimRows makes the statement for several claims of distributed tables.
func (c *combined) claimRows(reqs []*store.ClaimRequest) pgkit.Statement {
	rows := make([]pgx.NamedArgs, len(reqs))
	for i, req := range reqs {
		rows[i] = claimArgs(c.store.db.Briefly, *req, false)
	}
	return c.store.query().claimRows.Bind(rows)
}

// scanClaim reads a row of claim_many.sql.
func scanClaim(row pgx.CollectableRow, index map[store.ID]int) (int, claimTimes, error) {
	var key pgtype.UUID
	var t claimTimes
	err := row.Scan(&key, &t.created, &t.leaseUntil, &t.expires)
	return indexOf(index, key), t, err
}

// isAlike reports whether all rows are like the first.
func isAlike[T any](all []T, like func(first, other T) bool) bool {
	for _, other := range all {
		if !like(all[0], other) {
			return false
		}
	}
	return true
}

func claimsAlike(a, b *store.ClaimRequest) bool {
	return b.Effect != store.Opaque && a.Effect == b.Effect && a.Fingerprint.Version == b.Fingerprint.Version &&
		a.Lease == b.Lease && a.Keep == b.Keep && a.Window == b.Window && a.Route == b.Route
}

// claimArrays are the columns in which all claims differ.
func claimArrays(reqs []*store.ClaimRequest) pgx.NamedArgs {
	n := len(reqs)
	keys, tokens, parents := make(pgkit.Array[pgtype.UUID], n), make(pgkit.Array[pgtype.UUID], n), make(pgkit.Array[pgtype.UUID], n)
	fingerprints, firstSents := make(pgkit.Array[pgkit.Bytea], n), make(pgkit.Array[pgtype.Timestamptz], n)
	for i, req := range reqs {
		keys[i], tokens[i], parents[i] = toUUID(req.ID), toUUID(req.Token), callerOf(*req)
		fingerprints[i], firstSents[i] = req.Fingerprint.Sum[:], toTimestamp(req.FirstSent)
	}
	return pgx.NamedArgs{"keys": keys, "tokens": tokens, "parents": parents, "fingerprints": fingerprints, "first_sents": firstSents}
}

// addClaimArrays adds the columns in which claims of different guards differ.
func addClaimArrays(args pgx.NamedArgs, reqs []*store.ClaimRequest) {
	n := len(reqs)
	effects, versions := make([]int16, n), make([]int16, n)
	leases, keeps, windows := make(pgkit.Array[pgtype.Interval], n), make(pgkit.Array[pgtype.Interval], n), make(pgkit.Array[pgtype.Interval], n)
	routes, memos := make(pgkit.Array[pgtype.Text], n), make(pgkit.Array[pgkit.Bytea], n)
	for i, req := range reqs {
		effects[i], versions[i] = int16(req.Effect), int16(req.Fingerprint.Version)
		leases[i], keeps[i], windows[i] = pgkit.Interval(req.Lease), pgkit.Interval(req.Keep), pgkit.Interval(req.Window)
		routes[i], memos[i] = routeOf(*req), req.Memo
	}
	args["effects"], args["fingerprint_versions"] = effects, versions
	args["leases"], args["keeps"], args["windows"] = leases, keeps, windows
	args["routes"], args["memos"] = routes, memos
}

// scanClaimAlike reads a row of claim_many_alike.sql. The server counts in microseconds.
func scanClaimAlike(row pgx.CollectableRow, index map[store.ID]int, req *store.ClaimRequest) (int, claimTimes, error) {
	var key pgtype.UUID
	var t claimTimes
	err := row.Scan(&key, &t.created)
	t.leaseUntil, t.expires = t.created.Add(req.Lease.Truncate(time.Microsecond)), t.created.Add(req.Keep.Truncate(time.Microsecond))
	return indexOf(index, key), t, err
}

func indexOf(index map[store.ID]int, key pgtype.UUID) int {
	if i, ok := index[key.Bytes]; ok {
		return i
	}
	return -1
}

// settleKind makes the kind of settlements with the statements that choose returns. The last can be the zero Query.
func (c *combined) settleKind(combiner *pgkit.Combiner, choose func(q *queries) (one, many, alike pgkit.Query)) *pgkit.BatchKind[settlement, bool] {
	return pgkit.NewBatchKind(combiner, pgkit.BatchKindConfig[settlement, bool]{
		One: func(s settlement) pgkit.Statement {
			one, _, _ := choose(c.store.query())
			return one.Bind(settleArgs(s.owner, s.end, c.store.db.Briefly))
		},
		ScanOne:  scanSettled,
		Finishes: true,
		Many: func(all []settlement) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
			_, many, alike := choose(c.store.query())
			return settleMany(many, alike, all), scanNumber
		},
		Compare: func(a, b settlement) int { return bytes.Compare(a.owner.ID[:], b.owner.ID[:]) },
		Place:   func(s settlement) pgkit.Place { return c.store.db.Placement.Of(s.owner.ID) },
		Bytes:   func(s settlement) int { return len(s.end.Answer.Envelope) },
	})
}

// settleMany makes the statement for several settlements. Completions by one guard differ in little;
// see claimMany.
func settleMany(many, manyAlike pgkit.Query, all []settlement) pgkit.Statement {
	args := settleArrays(all)
	if manyAlike.SQL() != "" && isAlike(all, completionsAlike) {
		end := all[0].end
		args["replay_for"], args["keep_answer"], args["maybe_ran"] = end.ReplayFor, intervalOrNull(end.KeepAnswer), end.MaybeRan
		return manyAlike.Bind(args)
	}
	addSettleArrays(args, all)
	return many.Bind(args)
}

func completionsAlike(a, b settlement) bool {
	return b.end.State == store.StateCompleted && a.end.ReplayFor == b.end.ReplayFor &&
		a.end.KeepAnswer == b.end.KeepAnswer && a.end.MaybeRan == b.end.MaybeRan
}

// settleArrays are the columns in which all settlements differ.
func settleArrays(all []settlement) pgx.NamedArgs {
	n := len(all)
	keys, tokens, fences := make(pgkit.Array[pgtype.UUID], n), make(pgkit.Array[pgtype.UUID], n), make([]int64, n)
	statuses, envelopes := make(pgkit.Array[pgtype.Int4], n), make(pgkit.Array[pgkit.Bytea], n)
	for i, s := range all {
		keys[i], tokens[i], fences[i] = toUUID(s.owner.ID), toUUID(s.owner.Token), s.owner.Fence
		statuses[i], envelopes[i] = answerOf(s.end)
	}
	return pgx.NamedArgs{
		"keys": keys, "tokens": tokens, "fences": fences, "statuses": statuses, "envelopes": envelopes, "numbers": pgkit.Numbers(n),
	}
}

// addSettleArrays adds the columns in which settlements differ that are not alike.
func addSettleArrays(args pgx.NamedArgs, all []settlement) {
	n := len(all)
	states, maybeRans := make([]int16, n), make([]bool, n)
	replayFors, keepAnswers, leaseLefts := make(pgkit.Array[pgtype.Interval], n), make(pgkit.Array[pgtype.Interval], n), make(pgkit.Array[pgtype.Interval], n)
	for i, s := range all {
		states[i], maybeRans[i] = int16(s.end.State), s.end.MaybeRan
		replayFors[i], keepAnswers[i], leaseLefts[i] = replayFor(s.end), intervalOrNull(s.end.KeepAnswer), leaseLeft(s.end)
	}
	args["states"], args["maybe_rans"] = states, maybeRans
	args["replay_fors"], args["keep_answers"], args["lease_lefts"] = replayFors, keepAnswers, leaseLefts
}

// scanNumber reads the number that settle_many.sql gave to one of its arguments.
func scanNumber(row pgx.CollectableRow) (int, bool, error) {
	var n int
	err := row.Scan(&n, nil)
	return n - 1, true, err
}

// claimTimes are the parts of a new record that the server decides.
type claimTimes struct{ created, leaseUntil, expires time.Time }

// A settlement is the end of a run as its owner asks for it.
type settlement struct {
	owner store.Owner
	end   store.Settlement
}

func claimOne(q *queries, lockTimeout string, req store.ClaimRequest, asynchronous bool) pgkit.Statement {
	return q.Claim.Bind(claimArgs(lockTimeout, req, asynchronous))
}

func claimArgs(lockTimeout string, req store.ClaimRequest, asynchronous bool) pgx.NamedArgs {
	return pgx.NamedArgs{
		"key":                 toUUID(req.ID),
		"token":               toUUID(req.Token),
		"effect":              int16(req.Effect),
		"fingerprint_version": int16(req.Fingerprint.Version),
		"fingerprint":         req.Fingerprint.Sum[:],
		"parent":              callerOf(req),
		"first_sent":          toTimestamp(req.FirstSent),
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

func settleArgs(o store.Owner, s store.Settlement, lockTimeout string) pgx.NamedArgs {
	status, envelope := answerOf(s)
	return pgx.NamedArgs{
		"key": toUUID(o.ID), "token": toUUID(o.Token), "fence": o.Fence, "state": int16(s.State), "status": status, "envelope": envelope,
		"replay_for": replayFor(s), "keep_answer": intervalOrNull(s.KeepAnswer), "maybe_ran": s.MaybeRan, "lease_left": leaseLeft(s),
		"lock_timeout": lockTimeout,
	}
}

// scanSettled is for statements that return a row, with nothing in it that counts, if
// they settled.
func scanSettled(pgx.CollectableRow) (bool, error) { return true, nil }

// failedAttemptsFrom is added to the number of failed attempts in the column status. Only a record without an answer has
// any, and no status of an answer is as high.
const failedAttemptsFrom = 1000

// answerOf returns the column status, and the envelope, which is null where s has no answer to keep.
func answerOf(s store.Settlement) (status pgtype.Int4, envelope []byte) {
	if s.State != store.StateCompleted {
		return pgtype.Int4{Int32: failedAttemptsFrom + int32(s.FailedAttempts), Valid: s.FailedAttempts > 0}, nil //nolint:gosec // Check bounds it
	}
	return pgtype.Int4{Int32: int32(s.Answer.Status), Valid: true}, s.Answer.Envelope //nolint:gosec // Check bounds it
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
	return toInterval(s.ReplayFor)
}

// leaseLeft is how much of a lease is left at most: nothing for a run that counts as dead or unknown, and
// null where it does not matter.
func leaseLeft(s store.Settlement) pgtype.Interval {
	return pgtype.Interval{Valid: s.State == store.StateInProgress || s.State == store.StateUnknown}
}

func toInterval(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

// intervalOrNull makes 0 a null.
func intervalOrNull(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: d > 0}
}

func toUUID(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

// toTimestamp makes the zero time a null.
func toTimestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
