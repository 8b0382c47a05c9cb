package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
)

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

// attach makes tables and attaches them, in one round trip and one commit: attaching locks out only
// other maintenance. Creating a table as a partition would lock out all statements.
func (s *Store) attach(ctx context.Context, conn *pgx.Conn, missing []partition) error {
	parent := s.named("idempotency_answer").String()
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
	if !s.query.distributed {
		return again(ctx, conn, strings.Join(statements, ";\n"))
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
	detach := "alter table " + s.named("idempotency_answer").String() + " detach partition " + t.String()
	if s.query.distributed { // Citus does not detach concurrently: the lock is held for a moment
		err = again(ctx, conn, detach)
	} else {
		err = again(ctx, conn, detach+" concurrently")
	}
	if hasCode(err, "55000") { // begun before: by a process that died, or by us, in a deadlock
		err = again(ctx, conn, detach+" finalize")
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
			if over, err := t.over(ctx, tx); err != nil || !over {
				return err
			}
			if _, err := tx.Exec(ctx, "lock table "+t.String()+" in access exclusive mode"); err != nil {
				return err
			}
			if over, err := t.over(ctx, tx); err != nil || !over {
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

// over reports whether the table is still the same, is not a partition, and holds only answers that
// are past their time. The query uses statement_timestamp, because clock_timestamp cannot be looked
// up in the primary key.
func (t table) over(ctx context.Context, tx pgx.Tx) (over bool, err error) {
	err = tx.QueryRow(ctx, "select not c.relispartition and not exists (select 1 from "+t.String()+" where kept_until > statement_timestamp())"+
		" from pg_class c where c.oid = $1 and c.oid = $2::regclass", pgx.QueryExecModeExec, t.oid, t.String()).Scan(&over)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return over, err
}

// again executes statements, and repeats a statement that was the victim of a deadlock.
func again(ctx context.Context, conn *pgx.Conn, statements string) error {
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

// named returns the table of that name in the schema of the store.
func (s *Store) named(name string) table { return table{schema: s.cfg.Schema, name: name} }

// String returns a table's name as statements have it.
func (t table) String() string {
	if t.schema == "" {
		return pgx.Identifier{t.name}.Sanitize()
	}
	return pgx.Identifier{t.schema, t.name}.Sanitize()
}

func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && slices.Contains(codes, pgErr.Code)
}
