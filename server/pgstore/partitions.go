package pgstore

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// partitionsAhead is how many partitions there are beyond the partition that a new answer needs.
// Maintenance may fail for as many intervals before answers go to their records.
const partitionsAhead = 3

// A partition holds the answers that are kept until a time between two.
type partition struct {
	table
	from, to time.Time
	leaving  bool // somebody began to detach it: nobody can see it, or put anything in
	analyzed bool // ANALYZE copies its answers to the statistics
}

// bounds is how the catalog writes a partition by range of one time.
var bounds = regexp.MustCompile(`^FOR VALUES FROM \('([^']+)'\) TO \('([^']+)'\)$`)

// A querier is the pool, or one connection.
type querier interface {
	pgkit.Queryer
	Begin(ctx context.Context) (pgx.Tx, error)
}

// lookAtPartitions returns the partitions, in order of time, and remembers how far they reach
// without a gap from now.
func (s *Store) lookAtPartitions(ctx context.Context, db querier) ([]partition, error) {
	// The catalog's functions lock what they describe, and a detachment can be in
	// the way.
	there, err := pgkit.RetryConflict(ctx, func() ([]partition, error) { return s.readPartitions(ctx, db) })
	if err != nil {
		return nil, err
	}
	s.partitioned.until.Store(reach(there, time.Now()).Unix())
	return there, nil
}

func (s *Store) readPartitions(ctx context.Context, db querier) (there []partition, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local timezone = 'UTC'"); err != nil { // the catalog writes bounds in it
			return err
		}
		rows, err := tx.Query(ctx, s.query.partitions.Bind(nil).SQL)
		if err != nil {
			return err
		}
		there, err = pgx.CollectRows(rows, scanPartition)
		return err
	})
	return there, err
}

const catalogTime = "2006-01-02 15:04:05.999999-07"

func scanPartition(row pgx.CollectableRow) (p partition, err error) {
	var text string
	if err := row.Scan(&p.oid, &p.schema, &p.name, &text, &p.leaving, &p.analyzed); err != nil {
		return p, err
	}
	if text == "DEFAULT" {
		return p, fmt.Errorf("%w: %s is a default partition, beside which no other can be detached concurrently", ErrConfig, p.name)
	}
	parts := bounds.FindStringSubmatch(text)
	if parts == nil {
		return p, fmt.Errorf("partition %s has bounds %q", p.name, text)
	}
	from, err := time.Parse(catalogTime, parts[1])
	if err != nil {
		return p, err
	}
	to, err := time.Parse(catalogTime, parts[2])
	p.from, p.to = from, to
	return p, err
}

// reach returns up to when there is a partition for every time from now on.
func reach(there []partition, now time.Time) time.Time {
	until := time.Unix(0, 0)
	for grown := true; grown; {
		grown = false
		for _, p := range there {
			covers := !p.leaving && (!p.from.After(now) || !p.from.After(until))
			if covers && p.to.After(now) && p.to.After(until) {
				until, grown = p.to, true
			}
		}
	}
	return until
}

// missingPartitions returns the partitions that are missing between now and the time that the
// youngest answers will be kept until, and some ahead. The nearest come first.
func (s *Store) missingPartitions(there []partition, now time.Time) (missing []partition) {
	interval := s.cfg.PartitionInterval
	end := now.Add(s.partitioned.answers.get() + 2*clockMargin + partitionsAhead*interval)
	for from := floor(now, interval); from.Before(end); {
		if covering, ok := partitionAt(there, from); ok {
			from = covering.to
			continue
		}
		to := floor(from, interval).Add(interval)
		for _, p := range there { // an older interval's may begin in between
			if p.from.After(from) && p.from.Before(to) {
				to = p.from
			}
		}
		if to.After(now) { // a gap that is past needs nothing
			missing = append(missing, partition{table: s.named(partitionName(from, interval)), from: from, to: to})
		}
		from = to
	}
	return missing
}

// floor is the beginning of t's interval: midnight in UTC, for days.
func floor(t time.Time, interval time.Duration) time.Time { return t.UTC().Truncate(interval) }

func partitionAt(there []partition, t time.Time) (partition, bool) {
	for _, p := range there {
		if !t.Before(p.from) && t.Before(p.to) {
			return p, true
		}
	}
	return partition{}, false
}

// partitionName names a partition by its beginning. A partition that begins within a day has the
// time in its name even if the interval is a day: it fills a gap between others.
func partitionName(from time.Time, interval time.Duration) string {
	if day := 24 * time.Hour; interval%day == 0 && from.Equal(floor(from, day)) {
		return "idempotency_answer_p" + from.Format("20060102")
	}
	return "idempotency_answer_p" + from.Format("20060102_150405")
}
