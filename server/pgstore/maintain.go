package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
// next call does. One thing may be left to you: a partition with a name that is neither
// ours nor pg_partman's, which this process detached and ended without dropping it. It does nothing unless [Config.Answers] is [AnswersPartitioned] or
// [AnswersLeaving]; with the latter it only drops. A role that does not own the tables
// only looks, and gets an error once new answers find no partition: then their owner
// is late.
//
// Partitions are named as pg_partman 5 names them (idempotency_answer_p20261121).
// Those that it made are kept and dropped alike, and those of its version 4
// (idempotency_answer_p2026_11_21) as well. A table in the schema of the answers that
// has such a name, whose time is over, and the columns of the answers is taken for a
// partition that somebody detached: it is dropped once no answer in it is within its
// time. An archive needs another name, or a column more.
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
	return wrap("partitions", s.maintainPartitions(ctx))
}

func (s *Store) maintainPartitions(ctx context.Context) error {
	due, err := s.dueMaintenance(ctx, s.pool)
	if err != nil || due.nothing() {
		return err
	}
	owner, err := pgkit.One(ctx, s.pool, s.query.ownsAnswers.Bind(nil), pgx.RowTo[bool])
	if err != nil {
		return err
	}
	if !owner {
		return s.lateFor(due.missing)
	}
	err = s.alone(ctx, func(conn *pgx.Conn) error {
		due, err := s.dueMaintenance(ctx, conn) // another process may have been faster
		if err != nil {
			return err
		}
		return s.maintain(ctx, conn, due)
	})
	_, lookErr := s.lookAtPartitions(ctx, s.pool)
	return errors.Join(err, lookErr)
}

// A maintenance is what there is to do.
type maintenance struct {
	there    []partition
	missing  []partition
	past     []partition // those that somebody began to detach first: no other can leave before them
	detached []table     // tables that were partitions
	now      time.Time   // the server's
}

func (m *maintenance) nothing() bool { return len(m.missing)+len(m.past)+len(m.detached) == 0 }

func (s *Store) dueMaintenance(ctx context.Context, db querier) (due maintenance, err error) {
	if due.there, err = s.lookAtPartitions(ctx, db); err != nil {
		return due, err
	}
	if due.now, err = pgkit.One(ctx, db, s.query.clock.Bind(nil), pgx.RowTo[time.Time]); err != nil {
		return due, err
	}
	if s.cfg.Answers == AnswersPartitioned {
		due.missing = s.missingPartitions(due.there, due.now)
	}
	for _, p := range due.there {
		if !due.now.Before(p.to) {
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
	due.detached, err = s.detached(ctx, db, due.now)
	return due, err
}

// detached returns the tables that were partitions: those that this process detached,
// and of others those whose names tell that their time is over.
func (s *Store) detached(ctx context.Context, db querier, now time.Time) ([]table, error) {
	ours := s.undropped.all()
	st := s.query.detachedPartitions.Bind(pgx.NamedArgs{"ours": slices.Collect(maps.Keys(ours))})
	found, err := pgkit.All(ctx, db, st, func(row pgx.CollectableRow) (t table, err error) {
		return t, row.Scan(&t.oid, &t.schema, &t.name)
	})
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(t table) bool {
		if was, remembered := ours[t.oid]; remembered {
			return was != t // who gave it another name wants to keep it
		}
		end, ok := nameEnd(t.name, s.cfg.PartitionInterval)
		return !ok || now.Before(end)
	})
	for _, t := range ours {
		if !slices.Contains(found, t) {
			s.undropped.forget(t)
		}
	}
	return found, nil
}

// alone calls work unless another process maintains at this moment. work gets a
// connection that is not of the pool, whose last one the lock may have.
//
// The lock belongs to a transaction that does nothing else: it cannot outlive this
// process, nor get lost behind a pooler. The transaction keeps nobody waiting, as it
// has no lock on a table and no snapshot. That is why its statement is sent in the
// simple protocol: the extended one leaves a portal open until the end, and with it a
// snapshot, which finalize would wait for.
func (s *Store) alone(ctx context.Context, work func(*pgx.Conn) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var won bool
	const lock = "select pg_try_advisory_xact_lock(hashtext($1))"
	if err := tx.QueryRow(ctx, lock, pgx.QueryExecModeSimpleProtocol, s.named("idempotency_answer").String()).Scan(&won); err != nil || !won {
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
	failures := []error{s.makePartitions(ctx, conn, due)}
	for _, p := range due.past {
		gone, err := s.detachPartition(ctx, conn, p.table)
		if gone {
			s.undropped.remember(p.table)
		}
		failures = append(failures, err)
	}
	detached, err := s.detached(ctx, conn, due.now)
	for _, t := range detached {
		failures = append(failures, s.dropDetached(ctx, conn, t))
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
