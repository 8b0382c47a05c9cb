package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Show implements [store.Reader]. A damaged record is returned as far as it can be read.
func (r *Reader) Show(ctx context.Context, id store.ID) (store.Record, error) {
	q, err := r.queries(ctx)
	if err != nil {
		return store.Record{}, wrap("show", err)
	}
	var found []store.Record
	err = r.ask(ctx, "show", pgkit.RowsInto(&found, q.show.Bind(pgx.NamedArgs{"key": uuid(id)}), scanOutline))
	if err == nil && len(found) == 0 {
		err = wrap("show", store.ErrNotFound)
	}
	if err != nil {
		return store.Record{}, err
	}
	return found[0], nil
}

// List implements [store.Reader]. A list with a Parent needs the index of children that [AddReaderIndexes] makes, and
// without it returns an error wrapping [store.ErrNoIndex]. Other lists read the notes of the keys that need a person.
func (r *Reader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if err := req.CheckRead(); err != nil {
		return nil, wrap("list", err)
	}
	q, err := r.queries(ctx)
	if err != nil {
		return nil, wrap("list", err)
	}
	args, st := listArgs(req), q.attention
	if req.Parent != (store.ID{}) {
		if _, children, err := r.indexes(ctx, q); err != nil || !children {
			return nil, noIndex("list", err, "of children")
		}
		args["parent"] = uuid(req.Parent)
		st = q.children
	}
	var found []store.Record
	err = r.ask(ctx, "list", pgkit.RowsInto(&found, st.Bind(args), scanOutline))
	return found, err
}

// Browse implements [store.Reader]. It needs the index of times that [AddReaderIndexes] makes. It reads every record of
// the window until it has found enough: for unknown and quarantined records List is faster.
func (r *Reader) Browse(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
	if err := req.Check(); err != nil {
		return nil, wrap("browse", err)
	}
	q, err := r.queries(ctx)
	if err != nil {
		return nil, wrap("browse", err)
	}
	if times, _, err := r.indexes(ctx, q); err != nil || !times {
		return nil, noIndex("browse", err, "of times")
	}
	var found []store.Record
	err = r.ask(ctx, "browse", pgkit.RowsInto(&found, browsing(q, req), scanOutline))
	return found, err
}

// browsing returns the statement that answers req.
func browsing(q *readerQueries, req store.BrowseRequest) pgkit.Statement {
	from, end := req.From, pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	last := req.Before
	if !req.To.IsZero() {
		from, _ = req.Window(req.To)
		// No ID is less than the zero ID. So this is the end of a page before the window, and it excludes To.
		if to := (store.Cursor{CreatedAt: req.To}); last.CreatedAt.IsZero() || earlier(to, last) {
			last = to
		}
	}
	if !last.CreatedAt.IsZero() {
		end = timestamp(last.CreatedAt)
	}
	of := make([]int16, len(req.States))
	for i, state := range req.States {
		of[i] = int16(state)
	}
	return q.browse.Bind(pgx.NamedArgs{
		"from": timestamp(from), "window": interval(store.DefaultWindow),
		"before_created_at": end, "before_key": uuid(last.ID),
		"states": of, "effect": int16(req.Effect), "route": req.Route, "limit": int64(req.Limit),
	})
}

func earlier(a, b store.Cursor) bool {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:])) < 0
}

// indexes reports which of the optional indexes are there.
func (r *Reader) indexes(ctx context.Context, q *readerQueries) (times, children bool, err error) {
	var found [][2]bool
	err = r.ask(ctx, "indexes", pgkit.RowsInto(&found, q.indexes.Bind(nil), func(row pgx.CollectableRow) (there [2]bool, err error) {
		return there, row.Scan(&there[0], &there[1])
	}))
	if err != nil || len(found) == 0 {
		return false, false, err
	}
	return found[0][0], found[0][1], nil
}

// noIndex returns err, or the error for an index that is not there.
func noIndex(doing string, err error, which string) error {
	if err != nil {
		return err
	}
	return wrap(doing, fmt.Errorf("%w: the index %s is missing; make it with AddReaderIndexes, or with: fanonce migrate up --component reader",
		store.ErrNoIndex, which))
}

// Attention implements [store.Reader].
func (r *Reader) Attention(ctx context.Context) (store.Attention, error) {
	q, err := r.queries(ctx)
	if err != nil {
		return store.Attention{}, wrap("attention", err)
	}
	var all []countedNotes
	err = r.ask(ctx, "attention", pgkit.RowsInto(&all, q.countAttention.Bind(nil), scanCountedNotes))
	return attentionOf(all), err
}

// AuditPage implements [store.Reader]. The Number of an entry is its id.
func (r *Reader) AuditPage(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
	if err := req.Check(); err != nil {
		return nil, wrap("audit", err)
	}
	q, err := r.queries(ctx)
	if err != nil {
		return nil, wrap("audit", err)
	}
	args := pgx.NamedArgs{"before": cmp.Or(req.Before, math.MaxInt64), "actor": req.Actor, "limit": int64(req.Limit)}
	st := q.auditOfAll
	if req.ID != (store.ID{}) {
		args["key"] = uuid(req.ID)
		st = q.auditOfOne
	}
	var found []store.AuditEntry
	err = r.ask(ctx, "audit", pgkit.RowsInto(&found, st.Bind(args), scanAuditEntry))
	return found, err
}
