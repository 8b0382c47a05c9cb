package pgstore

import (
	"bytes"
	"context"

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
	contention  contention // among claims
	locked      lockedKeys
	claims      *pgkit.BatchKind[store.ClaimRequest, claimTimes]
	settlements *pgkit.BatchKind[settlement, bool]
	apart       *pgkit.BatchKind[settlement, bool] // those with answers in partitions
}

func newCombined(s *Store, c *pgkit.Combiner) *combined {
	w := &combined{store: s}
	w.claims = pgkit.NewBatchKind(c, pgkit.BatchKindConfig[store.ClaimRequest, claimTimes]{
		One:     func(req store.ClaimRequest) pgkit.Statement { return claimOne(s.query, s.db.Briefly, req, false) },
		ScanOne: scanClaimTimes,
		OneAsynchronous: func(req store.ClaimRequest) pgkit.Statement {
			return claimOne(s.query, s.db.Briefly, req, true)
		},
		Asynchronous: s.asynchronous,
		Many:         w.claimMany,
		Compare:      func(a, b store.ClaimRequest) int { return bytes.Compare(a.ID[:], b.ID[:]) },
		Again:        w.collided,
		Bytes:        func(req store.ClaimRequest) int { return len(req.Memo) },
	})
	w.settlements = w.settleKind(c, s.query.settle, s.query.settleMany)
	w.apart = w.settleKind(c, s.query.settlePartitioned, s.query.settleManyPartitioned)
	return w
}

// claim inserts the record, and returns false if it did not.
func (w *combined) claim(ctx context.Context, req store.ClaimRequest) (claimTimes, bool, error) {
	return watch(ctx, &w.locked, w.claims, req.ID, req)
}

// settle ends the owner's run, and returns false if the owner has none. apart: the answer goes to
// a partition.
func (w *combined) settle(ctx context.Context, s settlement, apart bool) (bool, error) {
	kind := w.settlements
	if apart {
		kind = w.apart
	}
	_, ok, err := watch(ctx, &w.locked, kind, s.owner.ID, s)
	return ok, err
}

func (w *combined) claimMany(reqs []store.ClaimRequest) (pgkit.Statement, func(pgx.CollectableRow) (int, claimTimes, error)) {
	n := len(reqs)
	keys, tokens, parents := make(pgkit.Array[pgtype.UUID], 0, n), make(pgkit.Array[pgtype.UUID], 0, n), make(pgkit.Array[pgtype.UUID], 0, n)
	effects, versions := make([]int16, 0, n), make([]int16, 0, n)
	fingerprints, memos := make(pgkit.Array[pgkit.Bytea], 0, n), make(pgkit.Array[pgkit.Bytea], 0, n)
	firstSents := make(pgkit.Array[pgtype.Timestamptz], 0, n)
	leases, keeps, windows := make(pgkit.Array[pgtype.Interval], 0, n), make(pgkit.Array[pgtype.Interval], 0, n), make(pgkit.Array[pgtype.Interval], 0, n)
	routes := make(pgkit.Array[pgtype.Text], 0, n)
	index := make(map[store.ID]int, n)
	for i := range reqs {
		req := &reqs[i]
		if _, twice := index[req.ID]; twice {
			continue // it finds the record of the first, or comes again where that was too old
		}
		index[req.ID] = i
		keys, tokens, parents = append(keys, uuid(req.ID)), append(tokens, uuid(req.Token)), append(parents, callerOf(*req))
		effects, versions = append(effects, int16(req.Effect)), append(versions, int16(req.Fingerprint.Version))
		fingerprints = append(fingerprints, req.Fingerprint.Sum[:])
		firstSents = append(firstSents, timestamp(req.FirstSent))
		leases, keeps, windows = append(leases, pgkit.Interval(req.Lease)), append(keeps, pgkit.Interval(req.Keep)), append(windows, pgkit.Interval(req.Window))
		routes, memos = append(routes, routeOf(*req)), append(memos, memoOf(*req))
	}
	query := w.store.query.claimMany
	if w.contention.lately() {
		query = w.store.query.claimManyContended
	}
	st := query.Bind(pgx.NamedArgs{
		"keys": keys, "tokens": tokens, "effects": effects, "fingerprint_versions": versions, "fingerprints": fingerprints, "parents": parents,
		"first_sents": firstSents, "leases": leases, "keeps": keeps, "windows": windows, "routes": routes, "memos": memos,
	})
	return st, func(row pgx.CollectableRow) (int, claimTimes, error) {
		var key pgtype.UUID
		var t claimTimes
		err := row.Scan(&key, &t.created, &t.leaseUntil, &t.expires)
		i, ok := index[key.Bytes]
		if !ok {
			i = -1
		}
		return i, t, err
	}
}

// collided hears of a flush that failed, which changed nothing.
func (w *combined) collided(err error) bool {
	if !isTaken(err) {
		return false
	}
	w.contention.note()
	return true
}

func (w *combined) settleKind(c *pgkit.Combiner, one, many pgkit.Query) *pgkit.BatchKind[settlement, bool] {
	return pgkit.NewBatchKind(c, pgkit.BatchKindConfig[settlement, bool]{
		One: func(s settlement) pgkit.Statement {
			return one.Bind(settleArgs(s.owner, s.end, w.store.db.Briefly))
		},
		ScanOne: scanSettled,
		Many: func(all []settlement) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
			return w.settleMany(many, all), scanNumber
		},
		Compare: func(a, b settlement) int { return bytes.Compare(a.owner.ID[:], b.owner.ID[:]) },
		Bytes:   func(s settlement) int { return len(s.end.Answer.Envelope) },
	})
}

func (w *combined) settleMany(many pgkit.Query, all []settlement) pgkit.Statement {
	n := len(all)
	keys, tokens := make(pgkit.Array[pgtype.UUID], n), make(pgkit.Array[pgtype.UUID], n)
	fences, states := make([]int64, n), make([]int16, n)
	statuses, envelopes := make(pgkit.Array[pgtype.Int4], n), make(pgkit.Array[pgkit.Bytea], n)
	replayFors, keepAnswers := make(pgkit.Array[pgtype.Interval], n), make(pgkit.Array[pgtype.Interval], n)
	leaseLefts := make(pgkit.Array[pgtype.Interval], n)
	maybeRans := make([]bool, n)
	for i, s := range all {
		keys[i], tokens[i], fences[i] = uuid(s.owner.ID), uuid(s.owner.Token), s.owner.Fence
		states[i], maybeRans[i] = int16(s.end.State), s.end.MaybeRan
		statuses[i], envelopes[i] = answerOf(s.end)
		keepAnswers[i] = intervalOrNull(s.end.KeepAnswer)
		if s.end.State == store.StateCompleted {
			replayFors[i] = pgkit.Interval(s.end.ReplayFor)
		}
		leaseLefts[i].Valid = s.end.State == store.StateInProgress || s.end.State == store.StateUnknown // it ends now
	}
	return many.Bind(pgx.NamedArgs{
		"keys": keys, "tokens": tokens, "fences": fences, "states": states, "statuses": statuses, "envelopes": envelopes,
		"replay_fors": replayFors, "keep_answers": keepAnswers, "maybe_rans": maybeRans, "lease_lefts": leaseLefts, "numbers": pgkit.Numbers(n),
	})
}

// scanNumber reads the number that settle_many.sql gave to one of its arguments.
func scanNumber(row pgx.CollectableRow) (int, bool, error) {
	var n int
	err := row.Scan(&n, nil)
	return n - 1, true, err
}
