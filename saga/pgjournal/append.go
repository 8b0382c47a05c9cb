package pgjournal

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server/pgkit"
)

// Append implements [saga.Journal], in one statement if the owner still owns the
// saga. Now and then the saga's entries have to be compacted before, in two more.
func (j *Journal) Append(ctx context.Context, o saga.Owner, w saga.Write) error {
	if err := checkWrite(w); err != nil {
		return err
	}
	sealed, err := j.sealer.owned(o, w)
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
		full, err := j.refused(ctx, w)
		if err != nil || !full {
			return err
		}
		if err := j.compact(ctx, w); err != nil {
			return err
		}
	}
}

func (j *Journal) appendOnce(ctx context.Context, w owned) (bool, error) {
	var st pgkit.Statement
	switch s := (statements{j.query, j.lockTimeout}); {
	case w.Park != nil:
		st = s.park(w)
	case len(w.large) > 0:
		st = s.appendLarge(w)
	default:
		return j.rows.append(ctx, w)
	}
	_, ok, err := pgkit.Row(ctx, j.writer, st, pgx.RowTo[bool])
	return ok, err
}

// refused finds out why the statement did nothing: nil if that was because the write
// is there already, and full if its entries found no room.
func (j *Journal) refused(ctx context.Context, w owned) (full bool, err error) {
	after := w.Engine
	if !w.WakeAt.IsZero() || w.Park != nil {
		after = saga.EngineID{} // it gave the saga up
	}
	repeated := func(r saga.Record) bool {
		if r.Fence != w.Fence || r.Revision != w.Revision || w.Revision <= 1 {
			return false
		}
		return r.Engine == after && (r.Parked != nil) == (w.Park != nil)
	}
	// Who repeats a write goes on from it.
	r, err := j.look(ctx, w.ID, repeated)
	switch {
	case errors.Is(err, saga.ErrNotFound):
		return false, saga.ErrLeaseLost
	case err != nil:
		return false, err
	case repeated(r):
		return false, nil
	case r.Fence != w.Fence || r.Engine != w.Engine || r.Revision != w.Revision-1 || !r.Status.Driven():
		return false, saga.ErrLeaseLost
	}
	return true, nil
}

// compact makes room for further entries. If the saga moves on meanwhile, the next
// try of the write finds that out.
func (j *Journal) compact(ctx context.Context, w owned) error {
	_, err := pgkit.RetryConflict(ctx, func() (bool, error) {
		log, err := pgkit.One(ctx, j.pool, j.query.entries.Bind(pgx.NamedArgs{"id": uuid(w.ID), "revision": w.Revision - 1}), pgx.RowTo[[]byte])
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		short, err := j.sealer.compacted(w.ID, log)
		if err != nil {
			short = log // for a person to look at; there is room behind it
		}
		_, ok, err := pgkit.Row(ctx, j.writer, j.query.compact.Bind(pgx.NamedArgs{
			"id": uuid(w.ID), "fence": w.Fence, "revision": w.Revision - 1, "entries": short, "lock_timeout": j.lockTimeout,
		}), pgx.RowTo[bool])
		return ok, err
	})
	return err
}
