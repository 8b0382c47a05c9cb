package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// DefaultStatementTimeout is [ReaderConfig].StatementTimeout if that is zero.
const DefaultStatementTimeout = 2 * time.Second

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
	pool    *pgxpool.Pool
	cfg     ReaderConfig
	query   atomic.Pointer[readerQueries] // nil before the first statement
	setting pgkit.Statement
}

var _ store.Reader = (*Reader)(nil)

// NewReader returns a Reader on a pool that the caller made and will close. Its configuration must have gone through
// [Prepare], else NewReader returns an error wrapping [ErrNotPrepared]. It returns an error wrapping [ErrConfig] for a
// field of cfg that cannot be. NewReader sends nothing.
func NewReader(pool *pgxpool.Pool, cfg ReaderConfig) (*Reader, error) {
	cfg.StatementTimeout = cmp.Or(cfg.StatementTimeout, DefaultStatementTimeout)
	if cfg.StatementTimeout < time.Millisecond || cfg.StatementTimeout > time.Hour {
		return nil, fmt.Errorf("%w: StatementTimeout %v is not from 1ms to an hour", ErrConfig, cfg.StatementTimeout)
	}
	if err := pgkit.CheckPool(pool); err != nil {
		return nil, wrap("new reader", err)
	}
	query, err := readerQueriesBySchema.For(cfg.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	return &Reader{pool: pool, cfg: cfg, setting: query.settings.Bind(nil)}, nil
}

// Reader implements [store.ReaderStore]: a [Reader] on the store's pool, with the default [ReaderConfig].
func (s *Store) Reader() store.Reader { return s.reader }

// queries returns the statements that suit the tables. It asks the server the first time.
func (r *Reader) queries(ctx context.Context) (*readerQueries, error) {
	if q := r.query.Load(); q != nil {
		return q, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout+readerPatience)
	defer cancel()
	distributed, err := pgkit.Distributed(ctx, r.pool, r.cfg.Schema, storeTables.Tables[0])
	if err != nil {
		return nil, err
	}
	from := &readerQueriesBySchema
	if distributed {
		from = &distributedReaderQueriesBySchema
	}
	q, err := from.For(r.cfg.Schema)
	if err == nil {
		r.query.Store(q)
	}
	return q, err
}

// readerPatience is how long a Reader waits for a connection, and for a server that does not keep to the timeout.
const readerPatience = 3 * time.Second

// ask sends questions in one round trip, behind the settings of a Reader. They are one transaction, which only reads.
func (r *Reader) ask(ctx context.Context, doing string, questions ...pgkit.Question) error {
	short, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout+readerPatience)
	defer cancel()
	err := pgkit.ReadBounded(short, r.pool, r.cfg.StatementTimeout, append([]pgkit.Question{{Statement: r.setting}}, questions...)...)
	if errors.Is(err, pgkit.ErrTooSlow) || ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w, StatementTimeout is %v: %w", store.ErrTooSlow, r.cfg.StatementTimeout, err)
	}
	return wrap(doing, err)
}
