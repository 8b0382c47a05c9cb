package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

const (
	// maxPartitions is how many partitions answers may need at a time: each costs
	// memory in every session that plans a statement over them.
	maxPartitions = 1000
	// partitionsPerCommit is how many are made in one transaction, which holds
	// about five locks for each, of the thousands that a server has for all.
	partitionsPerCommit = 32
	// maintenanceLockTimeout is how long maintenance waits for a lock on the answers, in Postgres'
	// syntax. The maintenance of other processes waits behind it. Requests that need the partition
	// that is to be dropped may wait, too.
	maintenanceLockTimeout = "500ms"
)

var _ store.PartitionStore = (*Store)(nil)

// MaintainPartitions makes the partitions that new answers will need, and drops those whose answers
// are all past their time. It counts on answers that are kept for up to keep:
// [server.Config.AuditRetention], or less if BodyRetention is set. [server.Guard.RunSweeper] calls
// it. Without RunSweeper call it several times in each [Config.PartitionInterval], from one process
// or from several. If several processes call it at the same time, one does the work, and the others
// only look at the partitions.
//
// It waits for locks only briefly, on a connection of its own. This connection must not go through
// a pooler in transaction mode. If a lock, or a deadlock with other maintenance, prevents a part of
// the work, it returns an error, and the next call does that part. It does nothing unless
// [Config.Answers] is [AnswersPartitioned] or [AnswersLeaving]; with the latter it only drops. A
// role that does not own the tables only looks, and gets an error once new answers find no
// partition: then their owner is late.
//
// A partition is named by its beginning (idempotency_answer_p20261121).
// A partition whose time is past goes, whoever made it and whatever its name is.
// MaintainPartitions notes each partition in a table before it detaches it, and drops the
// tables of these notes and no others. So a partition that somebody else detaches stays, and
// so does a table that is renamed or attached again before it is dropped.
func (s *Store) MaintainPartitions(ctx context.Context, keep time.Duration) error {
	if err := store.CheckLength("keep", keep); err != nil {
		return err
	}
	if s.cfg.Answers == AnswersInline {
		return nil
	}
	s.partitioned.answers.put(keep)
	if n := s.partitioned.answers.get() / s.cfg.PartitionInterval; n > maxPartitions {
		return badArgument("Config.PartitionInterval %v needs %d partitions, the most is %d: choose a longer one", s.cfg.PartitionInterval, n, maxPartitions)
	}
	return wrap("partitions", s.maintainPartitions(ctx))
}

func (s *Store) maintainPartitions(ctx context.Context) error {
	due, err := s.dueMaintenance(ctx, s.db.Pool)
	if err != nil || due.nothing() {
		return err
	}
	owner, err := pgkit.One(ctx, s.db.Pool, s.query().OwnsAnswers.Bind(nil), pgx.RowTo[bool])
	if err != nil {
		return err
	}
	if !owner {
		return s.lateFor(due.missing)
	}
	err = s.maintainAlone(ctx, func(conn *pgx.Conn) error {
		due, err := s.dueMaintenance(ctx, conn) // another process may have been faster
		if err != nil {
			return err
		}
		return s.maintain(ctx, conn, due)
	})
	_, lookErr := s.lookAtPartitions(ctx, s.db.Pool)
	return errors.Join(err, lookErr)
}

// A maintenance is the work that is due.
type maintenance struct {
	there    []partition
	missing  []partition
	past     []partition // Partly detached partitions come first: no other can leave before them.
	analyzed []partition // ANALYZE would copy their answers.
	detached []table     // Tables that maintenance has detached.
	stale    []table     // Notes of tables that it will not drop.
}

func (m *maintenance) nothing() bool {
	return len(m.missing)+len(m.past)+len(m.analyzed)+len(m.detached)+len(m.stale) == 0
}

func (s *Store) dueMaintenance(ctx context.Context, db querier) (due maintenance, err error) {
	if due.there, err = s.lookAtPartitions(ctx, db); err != nil {
		return due, err
	}
	now, err := pgkit.One(ctx, db, s.query().Clock.Bind(nil), pgx.RowTo[time.Time])
	if err != nil {
		return due, err
	}
	if s.cfg.Answers == AnswersPartitioned {
		due.missing = s.missingPartitions(due.there, now)
	}
	for _, p := range due.there {
		switch {
		case !now.Before(p.to):
			due.past = append(due.past, p)
		case p.analyzed && !p.leaving:
			due.analyzed = append(due.analyzed, p)
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
	due.detached, due.stale, err = s.findDetached(ctx, db)
	return due, err
}

// findDetached returns the tables that maintenance has detached, and those that it noted and will
// not drop.
func (s *Store) findDetached(ctx context.Context, db querier) (detached, stale []table, err error) {
	type noted struct {
		table
		stale bool
	}
	all, err := pgkit.All(ctx, db, s.query().DetachedPartitions.Bind(nil), func(row pgx.CollectableRow) (n noted, err error) {
		return n, row.Scan(&n.oid, &n.schema, &n.name, &n.stale)
	})
	for _, n := range all {
		if n.stale {
			stale = append(stale, n.table)
		} else {
			detached = append(detached, n.table)
		}
	}
	return detached, stale, err
}

// note writes down that maintenance is about to detach t. It is durable before the table is
// detached, so that the maintenance after a crash knows which tables to drop.
func (s *Store) note(ctx context.Context, conn *pgx.Conn, t table) error {
	st := s.query().NoteDetached.Bind(pgx.NamedArgs{"oid": t.oid})
	_, err := conn.Exec(ctx, st.SQL, st.Args...)
	return err
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (s *Store) forgetDetached(ctx context.Context, db executor, t table) error {
	st := s.query().ForgetDetached.Bind(pgx.NamedArgs{"oid": t.oid})
	_, err := db.Exec(ctx, st.SQL, st.Args...)
	return err
}

// maintainAlone calls work unless another process maintains at this moment. work gets a connection of its
// own, because the lock may have the pool's last connection.
//
// The lock belongs to a transaction that does nothing else: it cannot outlive this process, nor get
// lost behind a pooler. The transaction holds no lock on a table and no snapshot, so nothing waits
// for it. For that its statement is sent in the simple protocol. The extended protocol leaves a
// portal open until the end, and with the portal a snapshot, which finalize would wait for.
func (s *Store) maintainAlone(ctx context.Context, work func(*pgx.Conn) error) error {
	tx, err := s.db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	var won bool
	const lock = "select pg_try_advisory_xact_lock(hashtext('fanonce partitions ' || $1::regclass::oid))" // whoever names the schema, or not
	if err := tx.QueryRow(ctx, lock, pgx.QueryExecModeSimpleProtocol, s.tableOf("idempotency_answer").String()).Scan(&won); err != nil || !won {
		return err
	}
	conn, err := s.maintainer(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return work(conn)
}

// maintainer returns a connection whose every wait for a lock is short. Detaching concurrently
// cannot be in a transaction, where a timeout could be set for it alone. A pooler in transaction
// mode refuses the connection for this parameter.
func (s *Store) maintainer(ctx context.Context) (*pgx.Conn, error) {
	cfg := s.db.Pool.Config()
	conn := cfg.ConnConfig
	conn.RuntimeParams["lock_timeout"] = maintenanceLockTimeout
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, conn); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, conn)
}

// maintain does the work that is due, as far as it can. If one part fails, mostly because of a
// lock, it still does the others.
func (s *Store) maintain(ctx context.Context, conn *pgx.Conn, due maintenance) error {
	failures := []error{s.forgetStale(ctx, conn, due.stale), s.makePartitions(ctx, conn, due)}
	for _, p := range due.analyzed {
		failures = append(failures, execAgain(ctx, conn, withoutStatistics(p.table)))
	}
	for _, p := range due.past {
		failures = append(failures, s.leave(ctx, conn, p))
	}
	detached, stale, err := s.findDetached(ctx, conn)
	for _, t := range detached {
		failures = append(failures, s.dropDetached(ctx, conn, t))
	}
	return errors.Join(append(failures, err, s.forgetStale(ctx, conn, stale))...)
}

// leave detaches a partition. If somebody else began to detach it, leave only ends that, as no
// other partition can leave before. Without a note the table is not dropped.
func (s *Store) leave(ctx context.Context, conn *pgx.Conn, p partition) error {
	if !p.leaving {
		if err := s.note(ctx, conn, p.table); err != nil {
			return err
		}
	}
	detached, err := s.detachPartition(ctx, conn, p.table)
	if err == nil && !detached { // somebody else was faster, and may want to keep it
		err = s.forgetDetached(ctx, conn, p.table)
	}
	return err
}

// forgetStale takes notes back. One of a partition that could not be detached is made again
// with the next attempt.
func (s *Store) forgetStale(ctx context.Context, conn *pgx.Conn, stale []table) error {
	var failures []error
	for _, t := range stale {
		failures = append(failures, s.forgetDetached(ctx, conn, t))
	}
	return errors.Join(failures...)
}

// lateFor returns an error if a partition is missing that answers need now.
func (s *Store) lateFor(missing []partition) error {
	needed := time.Now().Add(s.partitioned.answers.get() + clockMargin)
	if len(missing) == 0 || missing[0].from.After(needed) {
		return nil
	}
	return fmt.Errorf("partition %s is missing, and this role does not own the tables to make it", missing[0].name)
}

// makePartitions makes the missing partitions, so many at a time, and uses each new partition at
// once.
func (s *Store) makePartitions(ctx context.Context, conn *pgx.Conn, due maintenance) error {
	there := due.there
	for chunk := range slices.Chunk(due.missing, partitionsPerCommit) {
		err := s.attach(ctx, conn, chunk)
		if isInTheWay(err) {
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
