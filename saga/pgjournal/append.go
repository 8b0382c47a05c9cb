package pgjournal

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// Append implements [journal.Journal], in one statement if the owner still owns the saga.
// Sometimes the saga's entries have to be compacted first, in two more statements.
func (j *Journal) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	if err := checkWrite(w); err != nil {
		return err
	}
	sealed, err := j.sealer.sealWrite(o, w)
	if err != nil {
		return wrap("append", err)
	}
	return wrap("append", j.append(ctx, sealed))
}

func (j *Journal) append(ctx context.Context, w owned) error {
	for {
		ok, err := pgkit.RetryConflict(ctx, func() (bool, error) { return j.appendOnce(ctx, w) })
		if err != nil || ok {
			return err
		}
		full, err := j.explainRefusal(ctx, w)
		if err != nil || !full {
			return err
		}
		if err := j.compact(ctx, w); err != nil {
			return err
		}
	}
}

func (j *Journal) appendOnce(ctx context.Context, w owned) (bool, error) {
	switch s := (statements{j.query, j.db.LockTimeout}); {
	case w.Defer != nil:
		_, ok, err := pgkit.Row(ctx, j.db.Writer, s.deferSaga(w), pgx.RowTo[bool])
		return ok, err
	case len(w.large) > 0:
		return j.appendLarge(ctx, s.append(w), s.appendResults(w))
	default:
		return j.rows.append(ctx, w)
	}
}

// appendLarge sends results for the side table behind the write, in its transaction.
func (j *Journal) appendLarge(ctx context.Context, write, results pgkit.Statement) (written bool, err error) {
	rows, err := pgkit.RowsTogether(ctx, j.db.Writer, []pgkit.Statement{write, results}, func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil })
	return len(rows) > 0, err
}

// explainRefusal finds out why the statement did nothing. It returns nil if the write is there already.
// full means that the write's entries do not fit into the log.
func (j *Journal) explainRefusal(ctx context.Context, w owned) (full bool, err error) {
	after := w.Engine
	if !w.WakeAt.IsZero() || w.Defer != nil {
		after = journal.EngineID{} // it gave the saga up
	}
	repeated := func(r journal.Record) bool {
		if r.Fence != w.Fence || r.Revision-r.Wakes != w.Revision || w.Revision <= 1 {
			return false
		}
		return r.Engine == after && (r.Deferred != nil) == (w.Defer != nil)
	}
	// An owner that repeats a write continues from the record that look returns.
	r, err := j.look(ctx, w.ID, repeated)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return false, journal.ErrLeaseLost
	case err != nil:
		return false, err
	case repeated(r):
		return false, nil
	case r.Fence != w.Fence || r.Engine != w.Engine || r.Revision-r.Wakes != w.Revision-1 || !r.Status.Active():
		return false, journal.ErrLeaseLost
	}
	return true, nil
}

// compact makes room for further entries. If the saga changes meanwhile, the next attempt of the
// write finds that out.
func (j *Journal) compact(ctx context.Context, w owned) error {
	_, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		var log []byte
		revision, err := pgkit.One(ctx, j.db.Pool, j.query.Entries.Bind(pgx.NamedArgs{"id": toUUID(w.ID), "fence": w.Fence}), func(row pgx.CollectableRow) (n int64, err error) {
			return n, row.Scan(&n, &log)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		short, err := j.sealer.compact(w.ID, log)
		if err != nil {
			short = log // the damaged log stays for a person to read; the write gets room after it
		}
		_, ok, err := pgkit.Row(ctx, j.db.Writer, j.query.Compact.Bind(pgx.NamedArgs{
			"id": toUUID(w.ID), "fence": w.Fence, "revision": revision, "entries": short, "needed": len(w.log),
			"lock_timeout": j.db.LockTimeout,
		}), pgx.RowTo[bool])
		return ok, err
	})
	return err
}
