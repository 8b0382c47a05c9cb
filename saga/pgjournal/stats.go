package pgjournal

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// A count is a row of what Stats reads.
type count struct {
	of     string
	status pgtype.Int2
	plan   []byte
	n      int64
	oldest pgtype.Interval
}

// Stats implements [saga.Journal], in one statement. It reads at most [saga.StatsLimit]
// entries of an index for each status, for each plan that has sagas without an engine, and for
// each engine that is gone.
func (j *Journal) Stats(ctx context.Context) (saga.Stats, error) {
	st := j.query.stats.Bind(pgx.NamedArgs{"most": int64(saga.StatsLimit)})
	counts, err := pgkit.AllUnder(ctx, j.pool, j.query.byIndex.Bind(nil), st, func(row pgx.CollectableRow) (c count, err error) {
		return c, row.Scan(&c.of, &c.status, &c.plan, &c.n, &c.oldest)
	})
	if err != nil {
		return saga.Stats{}, wrap("stats", err)
	}
	stats := saga.Stats{ByStatus: make(map[saga.Status]int64), OrphansOf: make(map[saga.PlanHash]int64)}
	for _, c := range counts {
		c.addTo(&stats)
	}
	return stats, nil
}

// addTo adds the count to stats. Sagas whose plan is damaged are orphans of no plan.
func (c count) addTo(stats *saga.Stats) {
	if c.n == 0 {
		return
	}
	switch c.of {
	case "parked":
		stats.Parked = c.n
		stats.Orphans = min(stats.Orphans+c.n, saga.StatsLimit)
		return
	case "asleep":
		stats.Asleep = min(stats.Asleep+c.n, saga.StatsLimit)
		return
	case "due":
		stats.Orphans = min(stats.Orphans+c.n, saga.StatsLimit)
		if plan := (saga.PlanHash{}); len(c.plan) == copy(plan[:], c.plan) && len(c.plan) == len(plan) {
			stats.OrphansOf[plan] = min(stats.OrphansOf[plan]+c.n, saga.StatsLimit)
		}
		return
	}
	status := saga.Status(c.status.Int16) //nolint:gosec // the statement has 1 to 6
	stats.ByStatus[status] = c.n
	const day, days = 24 * time.Hour, 100_000 // more than a Duration has are damage
	age := time.Duration(c.oldest.Microseconds)*time.Microsecond + min(time.Duration(c.oldest.Days), days)*day
	stats.OldestUnfinished = max(stats.OldestUnfinished, age)
}
