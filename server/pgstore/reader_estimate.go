package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// mostExpired is how many records Estimate reads in search of records that wait for the sweep.
const mostExpired = 10_000

// Estimate implements [store.Reader]. Records is by the last vacuum or ANALYZE of the table, and unknown where Citus
// distributes it. SweepLag is that of the 10,000 records that expired first. The counts need the index of times that
// [AddReaderIndexes] makes.
func (r *Reader) Estimate(ctx context.Context) (store.Estimate, error) {
	q, err := r.queries(ctx)
	if err != nil {
		return store.Estimate{}, wrap("estimate", err)
	}
	times, _, err := r.indexes(ctx, q)
	if err != nil {
		return store.Estimate{}, err
	}
	var sizes [][2]int64
	var lags []*time.Duration
	var counts []countedState
	questions := []pgkit.Question{
		pgkit.RowsInto(&sizes, q.size.Bind(nil), func(row pgx.CollectableRow) (size [2]int64, err error) { return size, row.Scan(&size[0], &size[1]) }),
		pgkit.RowsInto(&lags, q.sweepLag.Bind(pgx.NamedArgs{"limit": int64(mostExpired)}), pgx.RowTo[*time.Duration]),
	}
	if times {
		questions = append(questions, pgkit.RowsInto(&counts, q.young.Bind(pgx.NamedArgs{"limit": int64(store.MaxYoung)}), scanCountedState))
	}
	if err := r.ask(ctx, "estimate", questions...); err != nil {
		return store.Estimate{}, err
	}
	e := store.Estimate{Records: sizes[0][0], Bytes: sizes[0][1]}
	if lag := lags[0]; lag != nil {
		e.SweepLag = *lag
	}
	if times {
		e.ByState = make(map[store.State]int)
	}
	for _, c := range counts {
		e.Young += c.count
		e.ByState[c.state] = c.count
		if c.state == store.StateInProgress {
			e.OldestInProgress = max(0, c.age)
		}
	}
	return e, nil
}

// A countedState says how many of the young records have a state.
type countedState struct {
	state store.State
	count int
	age   time.Duration // of the oldest
}

func scanCountedState(row pgx.CollectableRow) (c countedState, err error) {
	var state int16
	err = row.Scan(&state, &c.count, &c.age)
	c.state = store.State(state) //nolint:gosec // a damaged record counts for some state
	return c, err
}
