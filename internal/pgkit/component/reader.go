package component

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

const (
	// DefaultStatementTimeout is [ReaderConfig].StatementTimeout if that is zero.
	DefaultStatementTimeout = 2 * time.Second
	// readerPatience is how long a Reader waits for a connection, and for a server that does not keep to the timeout.
	readerPatience = 3 * time.Second
)

// A ReaderConfig says how a [Reader] reads the tables of a component. Q is the type of its statements.
type ReaderConfig[Q any] struct {
	Schema string
	// StatementTimeout is how long the server works for one statement: 1 ms to an hour.
	StatementTimeout time.Duration

	Component *Component
	Queries   *pgkit.BySchema[*Q]
	Settings  func(q *Q) pgkit.Query // goes before each question
	TooSlow   error                  // wrapped by the error of a question that took too long
	Wrong     error                  // wrapped by the error for a field that cannot be
}

// A Reader asks the questions of people. It is safe for concurrent use.
type Reader[Q any] struct {
	ReaderConfig[Q]

	pool  *pgxpool.Pool
	query atomic.Pointer[Q] // nil before the first question
}

// NewReader returns a Reader on a pool that went through [pgkit.Prepare]. It sends nothing.
func NewReader[Q any](pool *pgxpool.Pool, cfg ReaderConfig[Q]) (*Reader[Q], error) {
	cfg.StatementTimeout = cmp.Or(cfg.StatementTimeout, DefaultStatementTimeout)
	if cfg.StatementTimeout < time.Millisecond || cfg.StatementTimeout > time.Hour {
		return nil, fmt.Errorf("%w: StatementTimeout %v is not between 1ms and 1h", cfg.Wrong, cfg.StatementTimeout)
	}
	if _, err := cfg.Queries.For(cfg.Schema, false); err != nil {
		return nil, fmt.Errorf("%w: %w", cfg.Wrong, err)
	}
	return &Reader[Q]{ReaderConfig: cfg, pool: pool}, pgkit.CheckPool(pool)
}

// Query returns the statements that suit the tables. It asks the server the first time.
func (r *Reader[Q]) Query(ctx context.Context) (*Q, error) {
	if q := r.query.Load(); q != nil {
		return q, nil
	}
	ctx, cancel := r.bound(ctx)
	defer cancel()
	schema, distributed, err := r.Component.Find(ctx, r.pool, r.Schema)
	if err != nil {
		return nil, err
	}
	q, err := r.Queries.For(schema, distributed)
	if err == nil {
		r.query.Store(q)
	}
	return q, err
}

func (r *Reader[Q]) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.StatementTimeout+readerPatience)
}

// Ask sends questions in one round trip, behind the Settings. They are one transaction, which only reads.
func (r *Reader[Q]) Ask(ctx context.Context, questions ...pgkit.Question) error {
	q, err := r.Query(ctx)
	if err != nil {
		return err
	}
	short, cancel := r.bound(ctx)
	defer cancel()
	settings := r.Settings(q)
	err = pgkit.ReadBounded(short, r.pool, r.StatementTimeout, append([]pgkit.Question{{Statement: settings.Bind(nil)}}, questions...)...)
	if errors.Is(err, pgkit.ErrTooSlow) || ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w, StatementTimeout is %v: %w", r.TooSlow, r.StatementTimeout, err)
	}
	return err
}

// Find asks one question, and returns its rows.
func Find[Q, T any](ctx context.Context, r *Reader[Q], statement func(q *Q) pgkit.Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	q, err := r.Query(ctx)
	if err != nil {
		return nil, err
	}
	var found []T
	err = r.Ask(ctx, pgkit.RowsInto(&found, statement(q), scan))
	return found, err
}
