package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// ErrTooSlow is wrapped by the errors of a [Reader] whose question the server did not answer in the StatementTimeout.
var ErrTooSlow = errors.New("outbox: the database took too long to find this")

// DefaultStatementTimeout is [ReaderConfig].StatementTimeout if that is zero.
const DefaultStatementTimeout = 2 * time.Second

// A ReaderConfig has the choices that a [Reader] leaves. Its zero value is ready to use.
type ReaderConfig struct {
	// Schema is the Postgres schema of the tables, as [Config].Schema.
	Schema string
	// StatementTimeout is how long the server works for one statement of the Reader. Past it the server ends the
	// statement, and the Reader returns an error wrapping [ErrTooSlow]. Zero means [DefaultStatementTimeout]; the least
	// is 1 ms, and the most is an hour.
	StatementTimeout time.Duration
}

// A Reader shows the messages that wait to people: for an operations page, or a command line. It reads by indexes alone,
// locks no row, and works behind a pooler in transaction mode. It never reads keys, headers and payloads. It is safe for
// concurrent use. Make a Reader with [NewReader].
type Reader struct {
	pool  *pgxpool.Pool
	cfg   ReaderConfig
	query *queries
}

// NewReader returns a reader of the messages that pool reaches. It sends nothing. It returns an error wrapping
// [ErrConfig] for a nil pool, and for a field of cfg that cannot be.
func NewReader(pool *pgxpool.Pool, cfg ReaderConfig) (*Reader, error) {
	cfg.StatementTimeout = cmp.Or(cfg.StatementTimeout, DefaultStatementTimeout)
	if cfg.StatementTimeout < time.Millisecond || cfg.StatementTimeout > time.Hour {
		return nil, fmt.Errorf("%w: StatementTimeout %v is not from 1ms to an hour", ErrConfig, cfg.StatementTimeout)
	}
	if pool == nil {
		return nil, fmt.Errorf("%w: no pool", ErrConfig)
	}
	query, err := queriesBySchema.For(cfg.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	return &Reader{pool, cfg, query}, nil
}

// A Cursor is a place in the order in which messages go. The zero Cursor is the beginning.
type Cursor struct {
	Lane     int // 0 to 31
	Position int64
}

// A ListRequest says which messages [Reader.List] returns.
type ListRequest struct {
	// Failing lists the messages that the broker did not take at least once.
	Failing bool
	// After is the end of the previous page, which is the Cursor of its last message.
	After Cursor
	Limit int // at least 1
}

// A Waiting is a message that waits, without its key, headers and payload.
type Waiting struct {
	Cursor

	Topic, Aggregate string
	// Attempts is how often the broker did not take the message. LastError says why; "" if it is 0. The pause before the
	// next attempt is in the memory of the relay alone.
	Attempts     int
	LastError    string
	Created      time.Time     // by the database's clock
	Age          time.Duration // since Created, by the same clock
	PayloadBytes int
}

// Stats counts the messages that wait, as [Outbox.Stats] does, and in bounded time.
func (r *Reader) Stats(ctx context.Context) (Stats, error) {
	found, err := ask(ctx, r, "stats", r.query.stats.Bind(named{"most": int64(StatsLimit)}), scanStats)
	if err != nil {
		return Stats{}, err
	}
	return found[0], nil
}

// List returns at most req.Limit messages, lane by lane, and in a lane in the order in which they go. It returns an error
// wrapping [ErrArgument] for a Limit or a Cursor that cannot be.
func (r *Reader) List(ctx context.Context, req ListRequest) ([]Waiting, error) {
	if req.Limit <= 0 {
		return nil, fmt.Errorf("%w: Limit %d is not positive", ErrArgument, req.Limit)
	}
	if req.After.Lane < 0 || req.After.Lane >= lanes || req.After.Position < 0 {
		return nil, fmt.Errorf("%w: After %+v", ErrArgument, req.After)
	}
	query := r.query.list
	if req.Failing {
		query = r.query.failing
	}
	lane := int16(req.After.Lane) //nolint:gosec // checked above
	st := query.Bind(named{"lane": lane, "position": req.After.Position, "limit": int64(req.Limit)})
	return ask(ctx, r, "list", st, func(row pgx.CollectableRow) (w Waiting, err error) {
		err = row.Scan(&w.Lane, &w.Position, &w.Topic, &w.Aggregate, &w.Attempts, &w.Created, &w.Age, &w.PayloadBytes, &w.LastError)
		w.Created = w.Created.UTC()
		return w, err
	})
}

// readerPatience is how long a Reader waits for a connection, and for a server that does not keep to the timeout.
const readerPatience = 3 * time.Second

// ask sends one statement, and returns its rows.
func ask[T any](ctx context.Context, r *Reader, doing string, st pgkit.Statement, scan pgx.RowToFunc[T]) ([]T, error) {
	short, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout+readerPatience)
	defer cancel()
	var found []T
	err := pgkit.ReadBounded(short, r.pool, r.cfg.StatementTimeout,
		pgkit.Question{Statement: r.query.settings.Bind(nil)}, pgkit.RowsInto(&found, st, scan))
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, pgkit.ErrTooSlow), ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", ErrTooSlow, err)
	}
	return nil, fmt.Errorf("outbox: %s: %w", doing, err)
}
