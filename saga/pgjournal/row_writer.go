package pgjournal

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A rowWriter makes the two writes that every saga needs durable. They are of one
// row each, so those of one process may share a commit, as combined makes them;
// singles sends each in one of its own.
type rowWriter interface {
	// start inserts the saga and returns when; false if it did not.
	start(ctx context.Context, req starting) (time.Time, bool, error)
	// append writes what an owner's work came to, and returns false if it did not.
	append(ctx context.Context, w owned) (bool, error)
}

type singles struct {
	writer *pgkit.Writer
	statements
}

func (s *singles) start(ctx context.Context, req starting) (time.Time, bool, error) {
	return pgkit.Row(ctx, s.writer, s.statements.start(req), pgx.RowTo[time.Time])
}

func (s *singles) append(ctx context.Context, w owned) (bool, error) {
	_, ok, err := pgkit.Row(ctx, s.writer, s.statements.append(w), pgx.RowTo[bool])
	return ok, err
}

// insist sends a write for as long as a lock may be waited for. Once it met the lock it goes alone, or each
// flush that it is in would meet it.
func insist[Q, A any](ctx context.Context, within time.Duration, batch *pgkit.BatchKind[Q, A], q Q) (A, bool, error) {
	type answer struct {
		a  A
		ok bool
	}
	send := batch.Do
	got, err := pgkit.RetryLocked(ctx, within, func() (answer, error) {
		a, ok, err := send(ctx, q)
		send = batch.Alone
		return answer{a, ok}, err
	})
	return got.a, got.ok, err
}

// combined sends the writes that wait at the same time in one commit. Starts go
// before other writes in all processes: a transaction that has locked sagas waits
// for no new one.
type combined struct {
	lockTimeout time.Duration
	starts      *pgkit.BatchKind[starting, time.Time]
	appends     *pgkit.BatchKind[owned, bool]
}

func newCombined(c *pgkit.Combiner, s statements, lockTimeout time.Duration) *combined {
	return &combined{
		lockTimeout: lockTimeout,
		starts: pgkit.NewBatchKind(c, pgkit.BatchKindConfig[starting, time.Time]{
			One: s.start, ScanOne: pgx.RowTo[time.Time], Many: s.startMany,
			Compare: func(a, b starting) int { return bytes.Compare(a.ID[:], b.ID[:]) },
			Bytes:   func(req starting) int { return len(req.input) },
		}),
		appends: pgkit.NewBatchKind(c, pgkit.BatchKindConfig[owned, bool]{
			One: s.append, ScanOne: pgx.RowTo[bool], Many: s.appendMany,
			Compare: func(a, b owned) int { return bytes.Compare(a.ID[:], b.ID[:]) },
			Bytes:   func(w owned) int { return len(w.log) + len(w.stored.result) },
		}),
	}
}

func (c *combined) start(ctx context.Context, req starting) (time.Time, bool, error) {
	return insist(ctx, c.lockTimeout, c.starts, req)
}

func (c *combined) append(ctx context.Context, w owned) (bool, error) {
	_, ok, err := insist(ctx, c.lockTimeout, c.appends, w)
	return ok, err
}

func (s statements) startMany(reqs []starting) (pgkit.Statement, func(pgx.CollectableRow) (int, time.Time, error)) {
	n := len(reqs)
	ids, engines := make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	plans, hashes, inputs := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	names, scopes, keys := make([]string, n), make([]string, n), make([]string, n)
	versions, fences := make([]int32, n), make([]int64, n)
	type starter struct{ id, engine [16]byte }
	index := make(map[starter]int, n)
	for i, req := range reqs {
		ids[i], engines[i] = uuid(req.ID), uuid(req.Engine)
		plans[i], hashes[i], inputs[i] = reqs[i].Plan[:], req.inputHash, req.input
		names[i], scopes[i], keys[i] = req.Name, req.Scope, req.Key.String()
		versions[i], fences[i] = int32(req.Version), firstFence(req.StartRequest) //nolint:gosec // checkStart bounds it
		index[starter{req.ID, req.Engine}] = i
	}
	st := s.query.startMany.Bind(pgx.NamedArgs{
		"ids": ids, "engines": engines, "plans": plans, "input_hashes": hashes, "names": names, "versions": versions,
		"scopes": scopes, "keys": keys, "inputs": inputs, "fences": fences,
	})
	return st, func(row pgx.CollectableRow) (int, time.Time, error) {
		var id, engine pgtype.UUID
		var created time.Time
		err := row.Scan(&id, &engine, &created)
		i, ok := index[starter{id.Bytes, engine.Bytes}]
		if !ok {
			i = -1
		}
		return i, created, err
	}
}

func (s statements) appendMany(all []owned) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
	if !slices.ContainsFunc(all, func(w owned) bool { return !w.completes() }) {
		return s.finishMany(all), scanNumber
	}
	n := len(all)
	ids, engines := make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	fences, revisions, statuses := make([]int64, n), make([]int64, n), make([]pgtype.Int2, n)
	deadlines, wakes := make([]pgtype.Timestamptz, n), make([]pgtype.Timestamptz, n)
	logs, causes, stuckOns, results := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
	keeps := make([]time.Duration, n)
	for i, w := range all {
		ids[i], engines[i], fences[i], revisions[i] = uuid(w.ID), uuid(w.Engine), w.Fence, w.Revision
		statuses[i], deadlines[i], wakes[i] = statusOrNull(w.Status), timestamp(w.DeadlineAt), timestamp(w.WakeAt)
		logs[i], causes[i], stuckOns[i], results[i] = w.log, w.stored.cause, w.stored.stuckOn, w.stored.result
		keeps[i] = w.Keep
	}
	return s.query.appendMany.Bind(pgx.NamedArgs{
		"ids": ids, "engines": engines, "fences": fences, "revisions": revisions, "entries": logs, "statuses": statuses,
		"deadline_ats": deadlines, "wake_ats": wakes, "causes": causes, "stuck_ons": stuckOns, "results": results, "keeps": keeps,
		"numbers": pgkit.Numbers(n),
	}), scanNumber
}

func (s statements) finishMany(all []owned) pgkit.Statement {
	n := len(all)
	ids, engines := make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	fences, revisions, keeps := make([]int64, n), make([]int64, n), make([]time.Duration, n)
	logs, results := make([][]byte, n), make([][]byte, n)
	for i, w := range all {
		ids[i], engines[i], fences[i], revisions[i] = uuid(w.ID), uuid(w.Engine), w.Fence, w.Revision
		logs[i], results[i], keeps[i] = w.log, w.stored.result, w.Keep
	}
	return s.query.finishMany.Bind(pgx.NamedArgs{
		"ids": ids, "engines": engines, "fences": fences, "revisions": revisions, "entries": logs, "results": results,
		"keeps": keeps, "numbers": pgkit.Numbers(n),
	})
}

// scanNumber reads the number that a statement gave to one of its arguments.
func scanNumber(row pgx.CollectableRow) (int, bool, error) {
	var n int
	err := row.Scan(&n)
	return n - 1, true, err
}
