package pgjournal

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// A count is one row of the statement of Stats.
type count struct {
	of     string
	status pgtype.Int2
	plan   []byte
	n      int64
	oldest pgtype.Interval
}

// Stats implements [journal.Journal], in one statement. It reads at most [journal.StatsLimit]
// entries of an index for each status, for each plan that has sagas without an engine, and for
// each engine that is gone.
func (j *Journal) Stats(ctx context.Context) (journal.Stats, error) {
	st := j.query.Stats.Bind(pgx.NamedArgs{"most": int64(journal.StatsLimit)})
	counts, err := pgkit.AllUnder(ctx, j.db.Pool, j.query.ByIndex.Bind(nil), st, scanCount)
	if err != nil {
		return journal.Stats{}, wrap("stats", err)
	}
	return statsOf(counts), nil
}

func scanCount(row pgx.CollectableRow) (c count, err error) {
	return c, row.Scan(&c.of, &c.status, &c.plan, &c.n, &c.oldest)
}

func statsOf(counts []count) journal.Stats {
	stats := journal.Stats{ByStatus: make(map[journal.Status]int64), UnownedOf: make(map[journal.PlanHash]int64)}
	for _, c := range counts {
		c.addTo(&stats)
	}
	return stats
}

// addTo adds the count to stats. Sagas with a damaged plan count as unowned, but in no plan.
func (c count) addTo(stats *journal.Stats) {
	if c.n == 0 {
		return
	}
	switch c.of {
	case "deferred":
		stats.Deferred = c.n
		stats.Unowned = min(stats.Unowned+c.n, journal.StatsLimit)
		return
	case "asleep":
		stats.Asleep = min(stats.Asleep+c.n, journal.StatsLimit)
		return
	case "due":
		stats.Unowned = min(stats.Unowned+c.n, journal.StatsLimit)
		if plan := (journal.PlanHash{}); len(c.plan) == copy(plan[:], c.plan) && len(c.plan) == len(plan) {
			stats.UnownedOf[plan] = min(stats.UnownedOf[plan]+c.n, journal.StatsLimit)
		}
		return
	}
	status := journal.Status(c.status.Int16) //nolint:gosec // the statement has 1 to 6
	stats.ByStatus[status] = c.n
	const day, days = 24 * time.Hour, 100_000 // more than a Duration has are damage
	age := time.Duration(c.oldest.Microseconds)*time.Microsecond + min(time.Duration(c.oldest.Days), days)*day
	stats.OldestUnfinished = max(stats.OldestUnfinished, age)
	if status == journal.Stuck {
		stats.OldestStuck = age
	}
}
