package pgjournal

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

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
		send = batch.DoAlone
		return answer{a, ok}, err
	})
	return got.a, got.ok, err
}

// combined sends the two writes that every saga needs durable. They are of one row each. Those that
// wait at the same time share a commit, except with Config.SeparateCommits. Starts go
// before other writes in all processes: a transaction that has locked sagas waits
// for no new one.
type combined struct {
	lockTimeout time.Duration
	starts      *pgkit.BatchKind[starting, time.Time]
	appends     *pgkit.BatchKind[owned, bool]
}

func newCombined(c *pgkit.Combiner, s statements, lockTimeout time.Duration, placement *pgkit.Placement) *combined {
	return &combined{
		lockTimeout: lockTimeout,
		starts: pgkit.NewBatchKind(c, pgkit.BatchKindConfig[starting, time.Time]{
			One: func(req starting) pgkit.Statement { return s.start(req) }, ScanOne: scanOne(scanStarted), Many: s.startMany,
			Compare: func(a, b starting) int { return bytes.Compare(a.ID[:], b.ID[:]) },
			Place:   func(req starting) pgkit.Place { return placement.Of(req.ID) },
			Bytes:   func(req starting) int { return len(req.input) },
		}),
		appends: pgkit.NewBatchKind(c, pgkit.BatchKindConfig[owned, bool]{
			One: func(w owned) pgkit.Statement { return s.append(w) }, ScanOne: scanOne(scanAppended),
			Many: func(all []owned) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
				return s.append(all...), scanAppended
			},
			Finishes: true,
			Compare:  func(a, b owned) int { return bytes.Compare(a.ID[:], b.ID[:]) },
			Place:    func(w owned) pgkit.Place { return placement.Of(w.ID) },
			Bytes:    func(w owned) int { return len(w.log) + len(w.stored.result) },
		}),
	}
}

// start inserts the saga, and returns when; false if it did not.
func (c *combined) start(ctx context.Context, req starting) (time.Time, bool, error) {
	return insist(ctx, c.lockTimeout, c.starts, req)
}

// append writes what an owner's work came to, and returns false if it did not.
func (c *combined) append(ctx context.Context, w owned) (bool, error) {
	_, ok, err := insist(ctx, c.lockTimeout, c.appends, w)
	return ok, err
}

func (s statements) startMany(reqs []starting) (pgkit.Statement, func(pgx.CollectableRow) (int, time.Time, error)) {
	index := make(map[starter]int, len(reqs))
	for i := range reqs {
		index[starter{reqs[i].ID, reqs[i].Engine}] = i
	}
	return s.start(reqs...), func(row pgx.CollectableRow) (int, time.Time, error) {
		by, at, err := scanStarted(row)
		i, ok := index[by]
		if !ok {
			i = -1
		}
		return i, at, err
	}
}

// scanOne reads the row of a lone request, which needs no index.
func scanOne[I, A any](scan func(pgx.CollectableRow) (I, A, error)) pgx.RowToFunc[A] {
	return func(row pgx.CollectableRow) (A, error) {
		_, answer, err := scan(row)
		return answer, err
	}
}
