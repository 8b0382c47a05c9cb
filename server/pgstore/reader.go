package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/server/store"
)

// DefaultStatementTimeout is [ReaderConfig].StatementTimeout if that is zero.
const DefaultStatementTimeout = component.DefaultStatementTimeout // 2 s

// A ReaderConfig has the choices that a [Reader] leaves. Its zero value is ready to use.
type ReaderConfig struct {
	// Schema is the Postgres schema that holds the tables, as [Config].Schema.
	Schema string

	// StatementTimeout is how long the server works for one statement of the Reader. Past it the server
	// ends the statement, and the Reader returns an error wrapping [store.ErrTooSlow]. Zero means
	// [DefaultStatementTimeout]; the least is 1 ms, and the most is an hour.
	StatementTimeout time.Duration
}

// A Reader shows the records in the tables to people: for an operations page, or a command line. It needs the rights
// of the observer ([Roles]), and no more. It reads by indexes alone, locks no row, and works behind a
// pooler in transaction mode. It is safe for concurrent use.
//
// Browse, the counts of Estimate, and a list of children need the indexes of [AddReaderIndexes]. Without its index
// Browse, as a list of children, returns an error wrapping [store.ErrNoIndex].
//
// A search for rare records in a long window ends with the StatementTimeout: the error then wraps
// [store.ErrTooSlow]. The same holds for a search of AuditPage for an actor with few entries.
type Reader struct {
	tables *component.Reader[readerQueries]
}

var _ store.Reader = (*Reader)(nil)

// NewReader returns a Reader on a pool that the caller made and will close. Its configuration must have gone through
// [Prepare], else NewReader returns an error wrapping [ErrNotPrepared]. It returns an error wrapping [ErrConfig] for a
// field of cfg that cannot be. NewReader sends nothing.
func NewReader(pool *pgxpool.Pool, cfg ReaderConfig) (*Reader, error) {
	tables, err := component.NewReader(pool, component.ReaderConfig[readerQueries]{
		Schema: cfg.Schema, StatementTimeout: cfg.StatementTimeout, Component: storeTables, Queries: &readerQueriesBySchema,
		Settings: func(q *readerQueries) pgkit.Query { return q.ReaderSettings }, TooSlow: store.ErrTooSlow, Wrong: ErrConfig,
	})
	if err != nil {
		return nil, wrap("new reader", err)
	}
	return &Reader{tables}, nil
}

// Reader implements [store.Store]: a [Reader] on the store's pool, with the default [ReaderConfig].
func (s *Store) Reader() store.Reader { return s.reader }

// find asks one question, and returns its rows.
func find[T any](ctx context.Context, r *Reader, doing string, statement func(q *readerQueries) pgkit.Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	found, err := component.Find(ctx, r.tables, statement, scan)
	return found, wrap(doing, err)
}

// readerIndexes are those that only a [Reader] needs. Every claim pays for them, so no migration makes them.
var readerIndexes = []component.Index{
	{Name: "idempotency_created_at", Columns: "(created_at, key)"},
	{Name: "idempotency_children", Columns: "(parent) where parent is not null"},
}

// AddReaderIndexes makes the two indexes that a [Reader] needs for Browse, for Estimate, and for lists of children:
// idempotency_created_at on (created_at, key), and idempotency_children on (parent). Each claim then writes an entry of
// each: SCALE.md has the cost. An empty schema means that the search_path finds the tables.
//
// It builds them concurrently: requests go on. It cannot be in a transaction, and its connection must not go through a
// pooler in transaction mode. It takes as long as the server needs to read the table twice, and to wait for all
// older transactions. If ctx ends before that, an invalid index stays, which the next call drops and makes anew. An
// index that is there is left as it is. Several processes may call it at once: one makes the indexes, and the others
// wait for them. To take the indexes away, drop them.
//
// The pool's role must own the tables. One connection of the pool is held meanwhile. AddReaderIndexes
// returns errors wrapping [ErrConfig] for a schema that cannot be, or for an index of such a name with
// other columns, and [ErrSchemaMissing].
func AddReaderIndexes(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	q, err := readerQueriesBySchema.For(schema, false)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if pool == nil {
		return fmt.Errorf("%w: the pool is nil", ErrConfig)
	}
	return wrap("reader indexes", component.IndexBuild{
		Pool: pool, Table: table{schema: schema, name: "idempotency"}.String(), Indexes: readerIndexes,
		Look: q.ReaderIndexes, Valid: func(row pgx.Row) (bool, error) {
			var times, children bool
			err := row.Scan(&times, &children)
			return times && children, err
		},
		Missing: ErrSchemaMissing, Wrong: ErrConfig,
	}.Run(ctx))
}

// readerQueries are the statements of a [Reader] for one schema. They name only the columns that the
// observer may read.
type readerQueries struct {
	ReaderSettings, ReaderIndexes, ReaderShow, ReaderBrowse, ReaderAttention, ReaderDead, ReaderChildren pgkit.Query
	CountAttention, ReaderSize, ReaderSweepLag, ReaderYoung, ReaderAudit, ReaderAuditOf                  pgkit.Query

	distributed bool
}

var readerQueriesBySchema = pgkit.BySchema[*readerQueries]{
	Load: func(schema string, distributed bool) (*readerQueries, error) {
		q := &readerQueries{distributed: distributed}
		return q, pgkit.LoadStatements(queryFiles, schema, distributed, q)
	},
}

// Show implements [store.Reader]. A damaged record is returned as far as it can be read.
func (r *Reader) Show(ctx context.Context, id store.ID) (store.Record, error) {
	found, err := find(ctx, r, "show", func(q *readerQueries) pgkit.Statement {
		return q.ReaderShow.Bind(pgx.NamedArgs{"key": toUUID(id)})
	}, scanOutline)
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
// For dead runs List reads the index of the 10,000 youngest Opaque records, 1,000 where Citus distributes the tables, and
// the notes that a sweep makes of older ones.
func (r *Reader) List(ctx context.Context, req store.ListRequest) ([]store.Record, error) {
	if err := req.Check(); err != nil {
		return nil, wrap("list", err)
	}
	q, err := r.tables.Query(ctx)
	if err != nil {
		return nil, wrap("list", err)
	}
	if req.Parent != (store.ID{}) {
		if _, children, err := r.indexes(ctx); err != nil || !children {
			return nil, noIndex("list", err, "of children")
		}
	}
	statements := listing(q, req)
	parts, questions := make([][]store.Record, len(statements)), make([]pgkit.Question, len(statements))
	for i, st := range statements {
		questions[i] = pgkit.RowsInto(&parts[i], st, scanOutline)
	}
	if err := r.tables.Ask(ctx, questions...); err != nil {
		return nil, wrap("list", err)
	}
	all := slices.Concat(parts...)
	slices.SortStableFunc(all, func(a, b store.Record) int { return a.Cursor().Compare(b.Cursor()) })
	return all[:min(len(all), req.Limit)], nil
}

// listing returns the statements that answer req together. They read in one transaction, but not at one moment.
func listing(q *readerQueries, req store.ListRequest) (all []pgkit.Statement) {
	args := pgx.NamedArgs{
		"effect": int16(req.Effect), "route": req.Route, "limit": int64(req.Limit),
		"after_created_at": after(req.After.CreatedAt), "after_key": toUUID(req.After.ID),
	}
	states := req.Listed()
	if req.Parent != (store.ID{}) {
		args["parent"], args["states"] = toUUID(req.Parent), toInts(states)
		return []pgkit.Statement{q.ReaderChildren.Bind(args)}
	}
	noted := slices.DeleteFunc(slices.Clone(states), func(state store.State) bool { return state == store.StateInProgress })
	if len(noted) > 0 {
		noteArgs := maps.Clone(args)
		noteArgs["states"] = toInts(noted)
		all = append(all, q.ReaderAttention.Bind(noteArgs))
	}
	if len(noted) < len(states) && (req.Effect == 0 || req.Effect == store.Opaque) {
		delete(args, "effect")
		args["young"] = opaqueWindow(q.distributed)
		all = append(all, q.ReaderDead.Bind(args))
	}
	return all
}

func toInts(states []store.State) []int16 {
	n := make([]int16, len(states))
	for i, state := range states {
		n[i] = int16(state)
	}
	return n
}

// after returns a time before all others if t is zero: the page to read is the first.
func after(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	}
	return toTimestamp(t)
}

// Browse implements [store.Reader]. It needs the index of times that [AddReaderIndexes] makes. It reads every record of
// the window until it has found enough: for unknown and quarantined records List is faster.
func (r *Reader) Browse(ctx context.Context, req store.BrowseRequest) ([]store.Record, error) {
	if err := req.Check(); err != nil {
		return nil, wrap("browse", err)
	}
	if times, _, err := r.indexes(ctx); err != nil || !times {
		return nil, noIndex("browse", err, "of times")
	}
	return find(ctx, r, "browse", func(q *readerQueries) pgkit.Statement { return browsing(q, req) }, scanOutline)
}

// browsing returns the statement that answers req.
func browsing(q *readerQueries, req store.BrowseRequest) pgkit.Statement {
	from, end := req.From, pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	last := req.Before
	if !req.To.IsZero() {
		from, _ = req.Window(req.To)
		// No ID is less than the zero ID. So this is the end of a page before the window, and it excludes To.
		if to := (store.Cursor{CreatedAt: req.To}); last.CreatedAt.IsZero() || to.Compare(last) < 0 {
			last = to
		}
	}
	if !last.CreatedAt.IsZero() {
		end = toTimestamp(last.CreatedAt)
	}
	return q.ReaderBrowse.Bind(pgx.NamedArgs{
		"from": toTimestamp(from), "window": toInterval(store.DefaultWindow),
		"before_created_at": end, "before_key": toUUID(last.ID),
		"states": toInts(req.States), "effect": int16(req.Effect), "route": req.Route, "limit": int64(req.Limit),
	})
}

// indexes reports which of the optional indexes are there.
func (r *Reader) indexes(ctx context.Context) (times, children bool, err error) {
	found, err := find(ctx, r, "indexes", func(q *readerQueries) pgkit.Statement { return q.ReaderIndexes.Bind(nil) },
		func(row pgx.CollectableRow) (there [2]bool, err error) { return there, row.Scan(&there[0], &there[1]) })
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
	all, err := find(ctx, r, "attention", func(q *readerQueries) pgkit.Statement { return q.CountAttention.Bind(nil) }, scanCountedNotes)
	return attentionOf(all), err
}

// AuditPage implements [store.Reader]. The Number of an entry is its id.
func (r *Reader) AuditPage(ctx context.Context, req store.AuditRequest) ([]store.AuditEntry, error) {
	if err := req.Check(); err != nil {
		return nil, wrap("audit", err)
	}
	args := pgx.NamedArgs{"before": cmp.Or(req.Before, math.MaxInt64), "actor": req.Actor, "limit": int64(req.Limit)}
	return find(ctx, r, "audit", func(q *readerQueries) pgkit.Statement {
		if req.ID == (store.ID{}) {
			return q.ReaderAudit.Bind(args)
		}
		args["key"] = toUUID(req.ID)
		return q.ReaderAuditOf.Bind(args)
	}, scanAuditEntry)
}

// mostExpired is how many records Estimate reads in search of records that wait for the sweep.
const mostExpired = 10_000

// Estimate implements [store.Reader]. Records is by the last vacuum or ANALYZE of the table, and unknown where Citus
// distributes it. SweepLag is that of the 10,000 records that expired first. The counts need the index of times that
// [AddReaderIndexes] makes.
func (r *Reader) Estimate(ctx context.Context) (store.Estimate, error) {
	q, err := r.tables.Query(ctx)
	if err != nil {
		return store.Estimate{}, wrap("estimate", err)
	}
	times, _, err := r.indexes(ctx)
	if err != nil {
		return store.Estimate{}, err
	}
	var sizes [][2]int64
	var lags []*time.Duration
	var counts []countedState
	var replication []component.Replication
	questions := []pgkit.Question{
		pgkit.RowsInto(&sizes, q.ReaderSize.Bind(nil), func(row pgx.CollectableRow) (size [2]int64, err error) { return size, row.Scan(&size[0], &size[1]) }),
		pgkit.RowsInto(&lags, q.ReaderSweepLag.Bind(pgx.NamedArgs{"limit": int64(mostExpired)}), pgx.RowTo[*time.Duration]),
		component.AskReplicationInto(&replication),
	}
	if times {
		questions = append(questions, pgkit.RowsInto(&counts, q.ReaderYoung.Bind(pgx.NamedArgs{"limit": int64(store.MaxYoung)}), scanCountedState))
	}
	if err := r.tables.Ask(ctx, questions...); err != nil {
		return store.Estimate{}, wrap("estimate", err)
	}
	e := store.Estimate{Records: sizes[0][0], Bytes: sizes[0][1], AsyncStandbys: replication[0].Async}
	if lag := lags[0]; lag != nil {
		e.SweepLag = *lag
	}
	if times {
		e.ByState = make(map[store.State]int)
	}
	for _, c := range counts {
		e.Young += c.count
		e.ByState[c.state] = c.count
		if c.state == store.StateInProgress {
			e.OldestInProgress = max(0, c.age)
		}
	}
	return e, nil
}

// A countedState says how many of the young records have a state.
type countedState struct {
	state store.State
	count int
	age   time.Duration // of the oldest
}

func scanCountedState(row pgx.CollectableRow) (c countedState, err error) {
	var state int16
	err = row.Scan(&state, &c.count, &c.age)
	c.state = store.State(state) //nolint:gosec // a damaged record counts for some state
	return c, err
}
