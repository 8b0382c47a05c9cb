package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/server/pgkit"
)

// partitionsAhead is how many partitions there are beyond the one that a new answer
// needs: for so long maintenance may fail before answers go to their records.
const partitionsAhead = 3

// maxPartitions is how many partitions answers may need at a time: each costs
// memory in every session that plans a statement over them.
const maxPartitions = 1000

// maintenanceLockTimeout is how long maintenance waits for a lock on the answers,
// while everybody who comes later waits behind it.
const maintenanceLockTimeout = "500ms"

// A partition holds the answers that are kept until a time between two.
type partition struct {
	name     string
	from, to time.Time
}

// MaintainPartitions makes the partitions that new answers will need, for answers
// that are kept for up to keep ([server.Config.AuditRetention]; less if
// BodyRetention is set), and drops those whose answers are all past their time. Call
// it several times in each [Config.PartitionInterval], from one process or from
// several, with a role that owns the tables. It needs a direct connection, not one
// through a pooler in transaction mode.
//
// It waits for locks only briefly: what it could not do because of one, or as the
// victim of deadlocks with others' maintenance, it returns as an error, and the
// next call does. It does nothing unless [Config.Answers] is
// [AnswersPartitioned] or [AnswersLeaving]; with the latter it only drops.
// Partitions are named as pg_partman names them (idempotency_answer_p20261121), and
// those that it made are kept and dropped alike.
func (s *Store) MaintainPartitions(ctx context.Context, keep time.Duration) error {
	if err := checkLength("keep", keep); err != nil {
		return err
	}
	if s.cfg.Answers == AnswersInline {
		return nil
	}
	s.partitioned.answers.put(keep)
	if n := s.partitioned.answers.get() / s.cfg.PartitionInterval; n > maxPartitions {
		return fmt.Errorf("%w: PartitionInterval %v needs %d partitions, the most is %d", ErrArgument, s.cfg.PartitionInterval, n, maxPartitions)
	}
	there, err := s.lookAtPartitions(ctx)
	if err != nil {
		return wrap("partitions", err)
	}
	now, err := s.serverTime(ctx)
	if err != nil {
		return wrap("partitions", err)
	}
	var failures []error
	if s.cfg.Answers == AnswersPartitioned {
		failures = append(failures, s.makePartitions(ctx, there, now))
	}
	for _, p := range there {
		if !now.Before(p.to) {
			failures = append(failures, s.detachPartition(ctx, p.name))
		}
	}
	failures = append(failures, s.dropDetached(ctx))
	_, err = s.lookAtPartitions(ctx)
	return wrap("partitions", errors.Join(append(failures, err)...))
}

func (s *Store) serverTime(ctx context.Context) (now time.Time, err error) {
	return now, s.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&now)
}

// bounds is how the catalog writes a partition by range of one time.
var bounds = regexp.MustCompile(`^FOR VALUES FROM \('([^']+)'\) TO \('([^']+)'\)$`)

// lookAtPartitions returns what partitions there are, in order of time, and
// remembers how far they reach without a gap from now.
func (s *Store) lookAtPartitions(ctx context.Context) ([]partition, error) {
	// The catalog's functions lock what they describe, and a detachment can be in
	// the way.
	there, err := pgkit.RetryConflict(ctx, func() ([]partition, error) { return s.readPartitions(ctx) })
	if err != nil {
		return nil, err
	}
	s.partitioned.until.Store(reach(there, time.Now()).Unix())
	return there, nil
}

func (s *Store) readPartitions(ctx context.Context) (there []partition, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
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
	if err := row.Scan(&p.name, &text); err != nil {
		return p, err
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
			covers := !p.from.After(now) || !p.from.After(until)
			if covers && p.to.After(now) && p.to.After(until) {
				until, grown = p.to, true
			}
		}
	}
	return until
}

// makePartitions makes those that are missing between now and the time that the
// youngest answers will be kept until, and some ahead.
func (s *Store) makePartitions(ctx context.Context, there []partition, now time.Time) error {
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
		if err := s.makePartition(ctx, partition{name: partitionName(from, interval), from: from, to: to}); err != nil {
			return err
		}
		from = to
	}
	return nil
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

func partitionName(from time.Time, interval time.Duration) string {
	if interval%(24*time.Hour) == 0 {
		return "idempotency_answer_p" + from.Format("20060102")
	}
	return "idempotency_answer_p" + from.Format("20060102_150405")
}

// makePartition attaches a table that it made before: attaching locks out other
// maintenance only, creating a partition at once would lock out everybody.
func (s *Store) makePartition(ctx context.Context, p partition) error {
	parent, name := s.table("idempotency_answer"), s.table(p.name)
	err := again(ctx, func() error { return s.attach(ctx, p, parent, name) })
	if hasCode(err, "42P07", "42P17") { // another process made it, or one that overlaps
		return nil
	}
	return err
}

func (s *Store) attach(ctx context.Context, p partition, parent, name string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			"set local lock_timeout = '" + maintenanceLockTimeout + "'",
			"select pg_advisory_xact_lock(hashtext(" + quoted(parent) + "))", // one makes, the others find it made
			"create table " + name + " (like " + parent + " including defaults including constraints including storage including compression)",
			"alter table " + parent + " attach partition " + name +
				" for values from ('" + p.from.Format(catalogTime) + "') to ('" + p.to.Format(catalogTime) + "')",
		} {
			if _, err := tx.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("make partition %s: %w", p.name, err)
			}
		}
		return nil
	})
}

// detachPartition takes a partition out without locking out anybody who reads or
// writes others.
func (s *Store) detachPartition(ctx context.Context, name string) error {
	detach := "alter table " + s.table("idempotency_answer") + " detach partition " + s.table(name)
	err := again(ctx, func() error {
		_, err := s.pool.Exec(ctx, detach+" concurrently", pgx.QueryExecModeSimpleProtocol)
		if hasCode(err, "55000") { // another process began to, and perhaps died; or we did, in a deadlock
			_, err = s.pool.Exec(ctx, detach+" finalize", pgx.QueryExecModeSimpleProtocol)
		}
		return err
	})
	if err != nil && !hasCode(err, "42P01", "42P17", "55000") { // no partition any more, or somebody is at it
		return fmt.Errorf("detach partition %s: %w", name, err)
	}
	return nil
}

// dropDetached drops what was detached, by us or by a process that died.
func (s *Store) dropDetached(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, s.query.detachedPartitions.Bind(nil).SQL)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		dropErr := again(ctx, func() error { return s.dropTable(ctx, name) })
		if dropErr != nil {
			err = errors.Join(err, fmt.Errorf("drop partition %s: %w", name, dropErr))
		}
	}
	return err
}

func (s *Store) dropTable(ctx context.Context, name string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '"+maintenanceLockTimeout+"'"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "drop table if exists "+s.table(name))
		return err
	})
}

// again repeats what was the victim of a deadlock with other maintenance.
func again(ctx context.Context, try func() error) error {
	_, err := pgkit.RetryConflict(ctx, func() (struct{}, error) { return struct{}{}, try() })
	return err
}

// table returns a table's name as statements have it.
func (s *Store) table(name string) string {
	if s.cfg.Schema == "" {
		return pgx.Identifier{name}.Sanitize()
	}
	return pgx.Identifier{s.cfg.Schema, name}.Sanitize()
}

// quoted returns text as a literal of SQL.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}
