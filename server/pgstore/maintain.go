package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

const (
	// maxPartitions is how many partitions answers may need at a time: each costs
	// memory in every session that plans a statement over them.
	maxPartitions = 1000
	// partitionsPerCommit is how many are made in one transaction, which holds
	// about five locks for each, of the thousands that a server has for all.
	partitionsPerCommit = 32
	// maintenanceLockTimeout is how long maintenance waits for a lock on the
	// answers, in Postgres' words: others' maintenance waits behind it, and so may
	// those who need the one partition that is to go.
	maintenanceLockTimeout = "500ms"
)

var _ server.PartitionStore = (*Store)(nil)

// MaintainPartitions makes the partitions that new answers will need, for answers
// that are kept for up to keep ([server.Config.AuditRetention]; less if
// BodyRetention is set), and drops those whose answers are all past their time.
// [server.Guard.RunSweeper] calls it; without that, call it several times in each
// [Config.PartitionInterval], from one process or from several: of those that call it
// at the same time one does the work, and the others only look what there is.
//
// It waits for locks only briefly, on a connection of its own, which must not go
// through a pooler in transaction mode. What it could not do because of a lock, or as
// the victim of deadlocks with others' maintenance, it returns as an error, and the
// next call does. It does nothing unless [Config.Answers] is [AnswersPartitioned] or
// [AnswersLeaving]; with the latter it only drops. A role that does not own the tables
// only looks, and gets an error once new answers find no partition: then their owner
// is late.
//
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
	due, err := s.dueMaintenance(ctx, s.pool)
	if err == nil && !due.nothing() {
		err = s.alone(ctx, func(conn *pgx.Conn) error {
			if due, err = s.dueMaintenance(ctx, conn); err != nil { // another process may have been faster
				return err
			}
			return s.maintain(ctx, conn, due)
		})
		_, lookErr := s.lookAtPartitions(ctx, s.pool)
		err = errors.Join(err, lookErr)
	}
	return wrap("partitions", err)
}

// A maintenance is what there is to do.
type maintenance struct {
	there    []partition
	missing  []partition
	past     []partition // those that somebody began to detach first: no other can leave before them
	detached []string    // tables that were partitions
}

func (m *maintenance) nothing() bool { return len(m.missing)+len(m.past)+len(m.detached) == 0 }

func (s *Store) dueMaintenance(ctx context.Context, db querier) (due maintenance, err error) {
	if due.there, err = s.lookAtPartitions(ctx, db); err != nil {
		return due, err
	}
	now, err := pgkit.One(ctx, db, s.query.clock.Bind(nil), pgx.RowTo[time.Time])
	if err != nil {
		return due, err
	}
	if s.cfg.Answers == AnswersPartitioned {
		due.missing = s.missingPartitions(due.there, now)
	}
	for _, p := range due.there {
		if !now.Before(p.to) {
			due.past = append(due.past, p)
		}
	}
	slices.SortStableFunc(due.past, func(a, b partition) int {
		switch {
		case a.leaving == b.leaving:
			return 0
		case a.leaving:
			return -1
		default:
			return 1
		}
	})
	due.detached, err = s.detached(ctx, db)
	return due, err
}

// detached returns the tables that were partitions.
func (s *Store) detached(ctx context.Context, db querier) ([]string, error) {
	rows, err := db.Query(ctx, s.query.detachedPartitions.Bind(nil).SQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// alone calls work with a connection for it, which need not be one of the pool's,
// as this may be its last; unless another process is at the same.
// The lock belongs to a transaction that does nothing else: it cannot outlive this
// process, nor get lost behind a pooler. That it is open keeps nobody waiting, as it
// has no lock on a table, and no snapshot: so the simple protocol, as the extended one
// leaves a portal open, and finalize would wait for its snapshot.
func (s *Store) alone(ctx context.Context, work func(*pgx.Conn) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var won bool
	const lock = "select pg_try_advisory_xact_lock(hashtext($1))"
	if err := tx.QueryRow(ctx, lock, pgx.QueryExecModeSimpleProtocol, s.table("idempotency_answer")).Scan(&won); err != nil || !won {
		return err
	}
	conn, err := s.maintainer(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return work(conn)
}

// maintainer returns a connection whose every wait for a lock is short: what detaches
// concurrently cannot be in a transaction, where a timeout could be set for it alone.
// A pooler in transaction mode refuses the connection for this parameter.
func (s *Store) maintainer(ctx context.Context) (*pgx.Conn, error) {
	cfg := s.pool.Config()
	conn := cfg.ConnConfig
	conn.RuntimeParams["lock_timeout"] = maintenanceLockTimeout
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, conn); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, conn)
}

// maintain does what is due, as far as it can: one thing that fails, mostly for
// a lock, says nothing of the others.
func (s *Store) maintain(ctx context.Context, conn *pgx.Conn, due maintenance) error {
	owner, err := pgkit.One(ctx, conn, s.query.ownsAnswers.Bind(nil), pgx.RowTo[bool])
	if err != nil {
		return err
	}
	if !owner {
		return s.lateFor(due.missing)
	}
	failures := []error{s.makePartitions(ctx, conn, due)}
	for _, p := range due.past {
		failures = append(failures, s.detachPartition(ctx, conn, p.name))
	}
	detached, err := s.detached(ctx, conn)
	for _, name := range detached {
		failures = append(failures, s.dropTable(ctx, conn, name))
	}
	return errors.Join(append(failures, err)...)
}

// lateFor returns an error if a partition is missing that answers need now.
func (s *Store) lateFor(missing []partition) error {
	needed := time.Now().Add(s.partitioned.answers.get() + clockMargin)
	if len(missing) == 0 || missing[0].from.After(needed) {
		return nil
	}
	return fmt.Errorf("partition %s is missing, and this role does not own the tables to make it", missing[0].name)
}

// makePartitions makes what is missing, so many at a time, and uses at once what it
// made.
func (s *Store) makePartitions(ctx context.Context, conn *pgx.Conn, due maintenance) error {
	there := due.there
	for chunk := range slices.Chunk(due.missing, partitionsPerCommit) {
		err := s.attach(ctx, conn, chunk)
		if inTheWay(err) {
			err = s.attachEach(ctx, conn, chunk)
		}
		if err != nil {
			return err
		}
		there = append(there, chunk...)
		s.partitioned.until.Store(reach(there, time.Now()).Unix())
	}
	return nil
}

// attachEach is for partitions some of which are there in some form, or overlap with
// others: somebody else makes partitions, too.
func (s *Store) attachEach(ctx context.Context, conn *pgx.Conn, missing []partition) error {
	for i := range missing {
		if err := s.attach(ctx, conn, missing[i:i+1]); err != nil && !inTheWay(err) {
			return err
		}
	}
	return nil
}

func inTheWay(err error) bool { return hasCode(err, "42P07", "42P17") }

// attach makes tables and attaches them, in one round trip and one commit: attaching
// locks out other maintenance only, creating a partition at once would lock out
// everybody.
func (s *Store) attach(ctx context.Context, conn *pgx.Conn, missing []partition) error {
	parent := s.table("idempotency_answer")
	var statements strings.Builder
	for _, p := range missing {
		name := s.table(p.name)
		statements.WriteString("create table " + name +
			" (like " + parent + " including defaults including constraints including storage including compression);\n" +
			"alter table " + parent + " attach partition " + name +
			" for values from ('" + p.from.Format(catalogTime) + "') to ('" + p.to.Format(catalogTime) + "');\n")
	}
	if err := again(ctx, conn, statements.String()); err != nil {
		return fmt.Errorf("make partitions %s to %s: %w", missing[0].name, missing[len(missing)-1].name, err)
	}
	return nil
}

// detachPartition takes a partition out without locking out anybody who reads or
// writes others. What it began and could not end, for a transaction that may still
// read the partition, the next call ends.
func (s *Store) detachPartition(ctx context.Context, conn *pgx.Conn, name string) error {
	detach := "alter table " + s.table("idempotency_answer") + " detach partition " + s.table(name)
	err := again(ctx, conn, detach+" concurrently")
	if hasCode(err, "55000") { // begun before: by a process that died, or by us, in a deadlock
		err = again(ctx, conn, detach+" finalize")
	}
	if err != nil && !hasCode(err, "42P01", "42P17") { // no partition any more
		return fmt.Errorf("detach partition %s: %w", name, err)
	}
	return nil
}

func (s *Store) dropTable(ctx context.Context, conn *pgx.Conn, name string) error {
	if err := again(ctx, conn, "drop table if exists "+s.table(name)); err != nil {
		return fmt.Errorf("drop partition %s: %w", name, err)
	}
	return nil
}

// again executes statements, and repeats what was the victim of a deadlock.
func again(ctx context.Context, conn *pgx.Conn, statements string) error {
	_, err := pgkit.RetryConflict(ctx, func() (pgconn.CommandTag, error) {
		return conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
	})
	return err
}

// table returns a table's name as statements have it.
func (s *Store) table(name string) string {
	if s.cfg.Schema == "" {
		return pgx.Identifier{name}.Sanitize()
	}
	return pgx.Identifier{s.cfg.Schema, name}.Sanitize()
}

func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && slices.Contains(codes, pgErr.Code)
}
