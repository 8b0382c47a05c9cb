package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
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
		rows, err := tx.Query(ctx, s.query().Partitions.Bind(nil).SQL)
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
			missing = append(missing, partition{table: s.tableOf(partitionName(from, interval)), from: from, to: to})
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

// Answers says where the answers of completed keys are kept. The keys themselves
// are always in one table, and so each is there once.
type Answers uint8

const (
	// AnswersInline keeps an answer in its key's record: one row, one update
	// and nothing to maintain.
	AnswersInline Answers = iota
	// AnswersPartitioned keeps answers in a table of their own, in partitions by the time that they
	// are kept until. Partitions are dropped whole. It is for many or large answers.
	// [Store.MaintainPartitions] must be called regularly. An answer without a partition is kept in
	// its record.
	AnswersPartitioned
	// AnswersLeaving keeps new answers in their records, and still finds answers in partitions. It
	// is for the way back, as long as partitions hold answers.
	AnswersLeaving
)

// partitioned says when an answer may go to a partition: as far as partitions were seen to reach,
// and no nearer to their end than clocks can differ.
type partitioned struct {
	until   atomic.Int64 // Unix seconds; 0: not known to be any
	records high         // how long records were asked to be kept
	answers high         // and answers
}

// clockMargin is by how much this process's clock may be behind the server's.
const clockMargin = time.Minute

// takes reports whether there is a partition for the answer.
func (p *partitioned) takes(end store.Settlement) bool {
	if end.State != store.StateCompleted || end.Answer.Envelope == nil {
		return false
	}
	keep := end.KeepAnswer
	if keep == 0 { // as long as the record
		keep = max(p.records.get(), end.ReplayFor)
	}
	p.answers.put(keep)
	return time.Now().Add(keep + clockMargin).Before(time.Unix(p.until.Load(), 0))
}

// high is the longest duration put in. It is safe for concurrent use.
type high struct{ atomic.Int64 }

func (h *high) get() time.Duration { return time.Duration(h.Load()) }

func (h *high) put(d time.Duration) {
	for most := h.Load(); int64(d) > most; most = h.Load() {
		if h.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

// goesApart reports whether the answer goes to a partition.
func (s *Store) goesApart(end store.Settlement) bool {
	return s.cfg.Answers == AnswersPartitioned && s.partitioned.takes(end)
}

// lacksPartition reports whether an answer found no partition. From then on answers go to their records,
// until the next look at the partitions.
func (s *Store) lacksPartition(err error) bool {
	if !isWithoutPartition(err) {
		return false
	}
	s.partitioned.until.Store(0)
	return true
}

// attachEach is for partitions some of which are there in some form, or overlap with
// others: somebody else makes partitions, too.
func (s *Store) attachEach(ctx context.Context, conn *pgx.Conn, missing []partition) error {
	for i := range missing {
		if err := s.attach(ctx, conn, missing[i:i+1]); err != nil && !isInTheWay(err) {
			return err
		}
	}
	return nil
}

func isInTheWay(err error) bool { return hasCode(err, "42P07", "42P17") }

// attach makes tables and attaches them, in one round trip and one commit: attaching locks out only
// other maintenance. Creating a table as a partition would lock out all statements.
func (s *Store) attach(ctx context.Context, conn *pgx.Conn, missing []partition) error {
	parent := s.tableOf("idempotency_answer").String()
	var statements []string
	for _, p := range missing {
		name := p.String()
		statements = append(statements, "create table "+name+
			" (like "+parent+" including defaults including constraints including storage including compression)",
			withoutStatistics(p.table),
			"alter table "+parent+" attach partition "+name+
				" for values from ('"+p.from.Format(catalogTime)+"') to ('"+p.to.Format(catalogTime)+"')")
	}
	if err := s.define(ctx, conn, statements); err != nil {
		return fmt.Errorf("make partitions %s to %s: %w", missing[0].name, missing[len(missing)-1].name, err)
	}
	return nil
}

// define executes statements in one commit, and in one round trip unless the tables are distributed:
// Citus takes one such statement at a time.
func (s *Store) define(ctx context.Context, conn *pgx.Conn, statements []string) error {
	if !s.query().distributed {
		return execAgain(ctx, conn, strings.Join(statements, ";\n"))
	}
	_, err := pgkit.RetryConflict(ctx, func() (struct{}, error) {
		return struct{}{}, pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return err
}

// withoutStatistics keeps ANALYZE from copying answers of a partition to the statistics, where
// they stay when the partition is gone. A partition does not have it from its parent.
func withoutStatistics(t table) string {
	return "alter table " + t.String() + " alter column envelope set statistics 0"
}

// detachPartition takes a partition out without locking out statements that read or write other
// partitions. A transaction that may still read the partition can keep it from ending the
// detachment. Then the next call ends the detachment. It returns false if somebody else was faster.
func (s *Store) detachPartition(ctx context.Context, conn *pgx.Conn, t table) (detached bool, err error) {
	detach := "alter table " + s.tableOf("idempotency_answer").String() + " detach partition " + t.String()
	if s.query().distributed { // Citus does not detach concurrently: the lock is held for a moment
		err = execAgain(ctx, conn, detach)
	} else {
		err = execAgain(ctx, conn, detach+" concurrently")
	}
	if hasCode(err, "55000") { // begun before: by a process that died, or by us, in a deadlock
		err = execAgain(ctx, conn, detach+" finalize")
	}
	switch {
	case err == nil:
		return true, nil
	case hasCode(err, "42P01", "42P17"): // no partition any more
		return false, nil
	}
	return false, fmt.Errorf("detach partition %s: %w", t.name, err)
}

// dropDetached drops a table that maintenance detached, if it is still no partition and no
// answer in it is within its time.
func (s *Store) dropDetached(ctx context.Context, conn *pgx.Conn, t table) error {
	_, err := pgkit.RetryConflict(ctx, func() (struct{}, error) {
		return struct{}{}, pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			// The check before the lock avoids a needless lock on a table that stays. The check
			// with the lock is final: nobody can add an answer after it.
			if over, err := t.isOver(ctx, tx); err != nil || !over {
				return err
			}
			if _, err := tx.Exec(ctx, "lock table "+t.String()+" in access exclusive mode"); err != nil {
				return err
			}
			if over, err := t.isOver(ctx, tx); err != nil || !over {
				return err
			}
			if _, err := tx.Exec(ctx, "drop table "+t.String()); err != nil {
				return err
			}
			return s.forgetDetached(ctx, tx, t)
		})
	})
	if err != nil && !hasCode(err, "42P01") { // somebody was faster
		return fmt.Errorf("drop partition %s: %w", t.name, err)
	}
	return nil
}

// isOver reports whether the table is still the same, is not a partition, and holds only answers that
// are past their time. The query uses statement_timestamp, because clock_timestamp cannot be looked
// up in the primary key.
func (t table) isOver(ctx context.Context, tx pgx.Tx) (over bool, err error) {
	err = tx.QueryRow(ctx, "select not c.relispartition and not exists (select 1 from "+t.String()+" where kept_until > statement_timestamp())"+
		" from pg_class c where c.oid = $1 and c.oid = $2::regclass", pgx.QueryExecModeExec, t.oid, t.String()).Scan(&over)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return over, err
}

// execAgain executes statements, and repeats a statement that was the victim of a deadlock.
func execAgain(ctx context.Context, conn *pgx.Conn, statements string) error {
	_, err := pgkit.RetryConflict(ctx, func() (pgconn.CommandTag, error) {
		return conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
	})
	return err
}

// A table is known by its schema, which is empty for that of the search path, and name. The oid
// tells it from a later table of the same name. It is 0 if it was not looked up.
type table struct {
	oid          uint32
	schema, name string
}

// tableOf returns the table of that name in the schema of the store.
func (s *Store) tableOf(name string) table { return table{schema: s.query().schema, name: name} }

// String returns a table's name as statements have it.
func (t table) String() string {
	if t.schema == "" {
		return pgx.Identifier{t.name}.Sanitize()
	}
	return pgx.Identifier{t.schema, t.name}.Sanitize()
}
