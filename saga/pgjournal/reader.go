package pgjournal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/internal/pgkit/component"
	"github.com/fanonce/fanonce/saga/journal"
)

// DefaultStatementTimeout is [ReaderConfig].StatementTimeout if that is zero.
const DefaultStatementTimeout = component.DefaultStatementTimeout // 2 s

// A ReaderConfig has the choices that a [Reader] leaves. Its zero value is ready to use.
type ReaderConfig struct {
	// Schema is the Postgres schema that holds the tables, as [Config].Schema.
	Schema string

	// StatementTimeout is how long the server works for one statement of the Reader. Past it the server
	// ends the statement, and the Reader returns an error wrapping [journal.ErrTooSlow]. Zero means
	// [DefaultStatementTimeout]; the least is 1 ms, and the most is an hour.
	StatementTimeout time.Duration

	// Codec is that of [Config]. Without it the sealed parts of a saga cannot be read: its
	// [journal.Record].Corrupt says so, and all other fields are there.
	Codec Codec
}

// A Reader shows the sagas in the tables to people: for an operations page, or a command line. It reads
// by indexes alone, locks no row, writes nothing, and works behind a pooler in transaction mode. It is
// safe for concurrent use.
//
// The rights of the observer ([Roles]) are enough for Browse, Plan, Plans, Stats, Estimate and AuditPage.
// The entries of a saga hold the results of its steps, so the observer's role cannot read them. Without
// the rights of the runtime role, therefore, Show returns an error wrapping [ErrPrivilege], and so does a
// Browse with StuckOn. The records of Browse are then without Cause, StuckOn and the text of Deferred.
//
// A list of finished sagas needs the index of [AddReaderIndexes], else Browse returns an error wrapping
// [journal.ErrNoIndex]. A search for a rare name or step in many sagas, or for a rare actor in a long audit
// log, ends with the StatementTimeout.
type Reader struct {
	tables *component.Reader[readerQueries]
	sealer sealer
}

var _ journal.Reader = (*Reader)(nil)

// NewReader returns a Reader on a pool that the caller made and will close. Its configuration must have
// gone through [Prepare], else NewReader returns an error wrapping [ErrNotPrepared]. It returns an error
// wrapping [ErrConfig] for a field of cfg that cannot be. NewReader sends nothing.
func NewReader(pool *pgxpool.Pool, cfg ReaderConfig) (*Reader, error) {
	if err := checkCodec(cfg.Codec); err != nil {
		return nil, err
	}
	tables, err := component.NewReader(pool, component.ReaderConfig[readerQueries]{
		Schema: cfg.Schema, StatementTimeout: cfg.StatementTimeout, Component: journalTables, Queries: &readerQueriesBySchema,
		Settings: func(q *readerQueries) pgkit.Query { return q.ByIndex }, TooSlow: journal.ErrTooSlow, Wrong: ErrConfig,
	})
	if err != nil {
		return nil, wrap("new reader", err)
	}
	return &Reader{tables: tables, sealer: sealer{codec: cfg.Codec}}, nil
}

// Reader implements [journal.OperatorJournal]: a [Reader] on the journal's pool, with its Codec and the
// default StatementTimeout.
func (j *Journal) Reader() journal.Reader { return j.reader }

// ask sends one statement of a reader, and returns its rows. An error says what was being done.
func ask[T any](ctx context.Context, r *Reader, doing string, statement func(q *readerQueries) pgkit.Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	found, err := component.Find(ctx, r.tables, statement, scan)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		err = fmt.Errorf("%w: %w", ErrPrivilege, err)
	}
	return found, wrap(doing, err)
}

// Show implements [journal.Reader]. It needs the rights of the runtime role.
func (r *Reader) Show(ctx context.Context, id journal.ID) (journal.Record, error) {
	found, err := ask(ctx, r, "show", func(q *readerQueries) pgkit.Statement {
		return q.ReaderShow.Bind(pgx.NamedArgs{"id": toUUID(id)})
	}, r.sealer.scanListed)
	switch {
	case err != nil:
		return journal.Record{}, err
	case len(found) == 0:
		return journal.Record{}, wrap("show", journal.ErrNotFound)
	}
	return hideContent(found[0].Record), nil
}

// hideContent returns r without the content of the saga: input, results and the bodies of answers.
func hideContent(r journal.Record) journal.Record {
	r.Input, r.InputHash, r.Trace, r.Result = nil, [32]byte{}, "", nil
	for i := range r.Entries {
		r.Entries[i].Result, r.Entries[i].Body = nil, nil
	}
	for _, f := range []*journal.Failure{r.Cause, r.StuckOn, r.Deferred} {
		if f != nil {
			f.Body = nil
		}
	}
	return r
}

// Plan implements [journal.Reader].
func (r *Reader) Plan(ctx context.Context, name string, version int) (journal.PlanRecord, error) {
	if err := checkPlan(name, version); err != nil {
		return journal.PlanRecord{}, err
	}
	found, err := ask(ctx, r, "plan", func(q *readerQueries) pgkit.Statement {
		return q.ReadPlan.Bind(pgx.NamedArgs{"name": name, "version": int32(version)}) //nolint:gosec // checkPlan
	}, scanPlan)
	switch {
	case err != nil:
		return journal.PlanRecord{}, err
	case len(found) == 0:
		return journal.PlanRecord{}, wrap("plan", journal.ErrNotFound)
	}
	return found[0], nil
}

// Plans implements [journal.Reader].
func (r *Reader) Plans(ctx context.Context) ([]journal.PlanRecord, error) {
	return ask(ctx, r, "plans", func(q *readerQueries) pgkit.Statement { return q.ReaderPlans.Bind(nil) }, scanPlan)
}

// Stats implements [journal.Reader].
func (r *Reader) Stats(ctx context.Context) (journal.Stats, error) {
	counts, err := ask(ctx, r, "stats", func(q *readerQueries) pgkit.Statement {
		return q.Stats.Bind(pgx.NamedArgs{"most": int64(journal.StatsLimit)})
	}, scanCount)
	if err != nil {
		return journal.Stats{}, err
	}
	return statsOf(counts), nil
}

// Estimate implements [journal.Reader]. Sagas is by the last vacuum or ANALYZE of the table, and unknown
// where Citus distributes it. Bytes is the size of the sagas and of their large results.
func (r *Reader) Estimate(ctx context.Context) (journal.Estimate, error) {
	found, err := ask(ctx, r, "estimate", func(q *readerQueries) pgkit.Statement { return q.ReaderEstimate.Bind(nil) },
		func(row pgx.CollectableRow) (e journal.Estimate, err error) {
			var lag *time.Duration
			if err = row.Scan(&e.Sagas, &e.Bytes, &lag); err == nil && lag != nil {
				e.SweepLag = *lag
			}
			return e, err
		})
	if err != nil {
		return journal.Estimate{}, err
	}
	return found[0], nil
}

// AuditPage implements [journal.Reader].
func (r *Reader) AuditPage(ctx context.Context, req journal.AuditRequest) ([]journal.AuditEntry, error) {
	if err := req.Check(); err != nil {
		return nil, fmt.Errorf("pgjournal: audit page: %w", err)
	}
	args := pgx.NamedArgs{"before": cmp.Or(req.Before, math.MaxInt64), "actor": req.Actor, "limit": int64(req.Limit)}
	return ask(ctx, r, "audit page", func(q *readerQueries) pgkit.Statement {
		if req.ID == (journal.ID{}) {
			return q.ReaderAudit.Bind(args)
		}
		args["saga"] = toUUID(req.ID)
		return q.ReaderAuditOf.Bind(args)
	}, r.sealer.scanAuditEntry)
}
