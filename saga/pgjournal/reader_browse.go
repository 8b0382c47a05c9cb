package pgjournal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// searchBatch is how many stuck sagas a search for a step reads at once.
const searchBatch = 500

// Browse implements [journal.Reader]. A list of unfinished sagas reads the index of their statuses, and
// any other list reads the index of [AddReaderIndexes]. A search for a step reads the stuck sagas in
// batches, each in the StatementTimeout, and ends with the StatementTimeout as a whole.
func (r *Reader) Browse(ctx context.Context, req journal.BrowseRequest) ([]journal.Record, error) {
	req, err := req.Normalize()
	if err != nil {
		return nil, fmt.Errorf("pgjournal: browse: %w", err)
	}
	rights, err := ask(ctx, r, "browse", func(q *readerQueries) pgkit.Statement { return q.ReaderIndex.Bind(nil) }, scanRights)
	switch {
	case err != nil:
		return nil, err
	case !rights[0].index && !req.Unfinished():
		return nil, fmt.Errorf("pgjournal: browse: %w: fanonce migrate up --component reader makes it, as AddReaderIndexes does", journal.ErrNoIndex)
	case req.StuckOn != "" && !rights[0].failures:
		return nil, fmt.Errorf("pgjournal: browse: %w: a search for a step needs the rights of the runtime role", ErrPrivilege)
	case req.StuckOn != "":
		return r.search(ctx, req)
	}
	return r.page(ctx, req, rights[0].failures)
}

// rights are what the tables and the role allow.
type rights struct{ index, failures bool }

func scanRights(row pgx.CollectableRow) (have rights, err error) {
	return have, row.Scan(&have.index, &have.failures)
}

// page returns a page of a list by one statement.
func (r *Reader) page(ctx context.Context, req journal.BrowseRequest, failures bool) ([]journal.Record, error) {
	statuses := make([]int16, len(req.Statuses))
	for i, s := range req.Statuses {
		statuses[i] = int16(s)
	}
	args := pgx.NamedArgs{
		"statuses": statuses, "damaged": slices.Contains(req.Statuses, journal.Stuck), "name": req.Name, "limit": int64(req.Limit),
	}
	args["before_created_at"], args["before_id"] = before(req)
	return ask(ctx, r, "browse", func(q *readerQueries) pgkit.Statement {
		unfinished, oldest, browse := q.ReaderUnfinished, q.oldest, q.ReaderBrowse
		if !failures {
			unfinished, oldest, browse = q.unfinishedBlind, q.oldestBlind, q.browseBlind
		}
		if req.Unfinished() {
			from, after := bounds(req)
			args["from"], args["stuck_on"] = lowerBound(from), r.hint(req.StuckOn)
			args["after_created_at"], args["after_id"] = lowerBound(after.CreatedAt), toUUID(after.ID)
			if req.OldestFirst {
				unfinished = oldest
			}
			return unfinished.Bind(args)
		}
		args["from"], args["window"] = pgtype.Timestamptz{}, journal.BrowseWindow
		if !req.From.IsZero() {
			args["from"] = toTimestamp(req.From)
		}
		return browse.Bind(args)
	}, r.sealer.scanBrief)
}

// hint returns the bytes that stuck_on has if a saga is stuck on the step; nil if they may be sealed.
// Some other values have these bytes too.
func (r *Reader) hint(step string) []byte {
	if step == "" || r.sealer.codec != nil {
		return nil
	}
	return []byte(step)
}

// bounds returns the time in which a list of unfinished sagas begins, and the place behind which a page of a list begins that
// has the oldest first.
func bounds(req journal.BrowseRequest) (from time.Time, after journal.Cursor) {
	if !req.OldestFirst {
		return req.From, journal.Cursor{}
	}
	if req.Before.CreatedAt.After(req.From) {
		return req.Before.CreatedAt, req.Before
	}
	return req.From, req.Before
}

// before returns the place before which a page ends or, with the youngest first, begins: the end of the window or of the
// page before, whichever is earlier.
func before(req journal.BrowseRequest) (pgtype.Timestamptz, pgtype.UUID) {
	var end journal.Cursor
	if !req.To.IsZero() {
		end.CreatedAt = req.To
	}
	at := req.Before
	if !req.OldestFirst && at != (journal.Cursor{}) && (end.CreatedAt.IsZero() || at.CreatedAt.Before(end.CreatedAt)) {
		end = at
	}
	if end == (journal.Cursor{}) {
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}, toUUID(bytes16(0xff))
	}
	return lowerBound(end.CreatedAt), toUUID(end.ID)
}

func bytes16(b byte) (id journal.ID) {
	copy(id[:], bytes.Repeat([]byte{b}, len(id)))
	return id
}

// search returns the stuck sagas of a page that are stuck on a step.
func (r *Reader) search(ctx context.Context, req journal.BrowseRequest) ([]journal.Record, error) {
	limit, step, end := req.Limit, req.StuckOn, time.Now().Add(r.tables.StatementTimeout)
	req.Limit = max(limit, searchBatch)
	var all []journal.Record
	for {
		page, err := r.page(ctx, req, true)
		if err != nil {
			return nil, err
		}
		for _, rec := range page {
			if rec.StuckOn != nil && rec.StuckOn.Step == step {
				all = append(all, rec)
			}
			if len(all) == limit {
				return all, nil
			}
		}
		if len(page) < req.Limit {
			return all, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("pgjournal: browse: %w: too many sagas are stuck on other steps", journal.ErrTooSlow)
		}
		last := page[len(page)-1]
		req.Before = journal.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
}

// unpackBrief is unpack without the columns that a list lacks.
func (c *columns) unpackBrief(s *stored) {
	c.unpackPlan(s, &s.damage)
	c.unpackStanding(s, &s.damage)
	c.checkTimes(&s.damage)
	c.unpackFailures(s, &s.damage)
}
