package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// DefaultBatchSize, DefaultPollInterval, DefaultPublishTimeout, DefaultLease and DefaultMaxBackoff are what the
	// zero values of [RelayConfig] mean.
	DefaultBatchSize      = 256
	DefaultPollInterval   = 200 * time.Millisecond
	DefaultPublishTimeout = 5 * time.Second
	DefaultLease          = 15 * time.Second
	DefaultMaxBackoff     = time.Minute
)

// RelayConfig configures a [Relay].
type RelayConfig struct {
	// Publish sends messages to the broker, and returns when the broker has them. No two messages of the batch are of
	// the same aggregate, so the function may send them at the same time. nil means that the broker has all of them.
	// Otherwise the result has one element for each message, nil where the broker has it. A message with an error
	// is sent again later. Publish must return when ctx ends. Required.
	//
	// A panic of Publish is not recovered.
	Publish func(ctx context.Context, batch []Message) []error
	// BatchSize is the most messages that Publish gets at once. Zero means [DefaultBatchSize].
	BatchSize int
	// PollInterval is how long an idle relay waits before it asks the database again. Zero means
	// [DefaultPollInterval].
	PollInterval time.Duration
	// PublishTimeout bounds one call of Publish. Zero means [DefaultPublishTimeout].
	PublishTimeout time.Duration
	// Lease is how long the lanes of a relay that died stay with it. It is at least three times PublishTimeout. Zero
	// means [DefaultLease].
	Lease time.Duration
	// MaxBackoff is the longest pause before a message is sent again that the broker did not take. The first pause is
	// a tenth of a second, and it doubles. Zero means [DefaultMaxBackoff].
	MaxBackoff time.Duration
	// Logger gets a warning for each failure of the database or of Publish. It holds no payload, key or header. nil is
	// silent.
	Logger *slog.Logger
}

// A Relay publishes the messages of an outbox. It is one of any number of relays.
type Relay struct {
	pool  *pgxpool.Pool
	query *queries
	cfg   RelayConfig
	id    [16]byte
}

// NewRelay returns a relay for the messages of o, which pool reaches. It sends nothing. It returns an error wrapping
// [ErrConfig] for a configuration that cannot work.
func (o *Outbox) NewRelay(pool *pgxpool.Pool, cfg RelayConfig) (*Relay, error) {
	cfg.BatchSize = cmp.Or(cfg.BatchSize, DefaultBatchSize)
	cfg.PollInterval = cmp.Or(cfg.PollInterval, DefaultPollInterval)
	cfg.PublishTimeout = cmp.Or(cfg.PublishTimeout, DefaultPublishTimeout)
	cfg.Lease = cmp.Or(cfg.Lease, max(DefaultLease, 3*cfg.PublishTimeout))
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, DefaultMaxBackoff)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case pool == nil:
		return nil, fmt.Errorf("%w: no pool", ErrConfig)
	case cfg.Publish == nil:
		return nil, fmt.Errorf("%w: no Publish", ErrConfig)
	case cfg.BatchSize < 1 || cfg.BatchSize > 10_000:
		return nil, fmt.Errorf("%w: BatchSize %d is not in 1 to 10,000", ErrConfig, cfg.BatchSize)
	case cfg.PollInterval < time.Millisecond, cfg.PublishTimeout < time.Millisecond, cfg.MaxBackoff < firstBackoff:
		return nil, fmt.Errorf("%w: PollInterval %v, PublishTimeout %v or MaxBackoff %v is too short", ErrConfig, cfg.PollInterval, cfg.PublishTimeout, cfg.MaxBackoff)
	case cfg.Lease < 3*cfg.PublishTimeout, cfg.Lease > 24*time.Hour:
		return nil, fmt.Errorf("%w: a Lease of %v is not in %v (three times PublishTimeout) to 24h", ErrConfig, cfg.Lease, 3*cfg.PublishTimeout)
	}
	r := &Relay{pool: pool, query: o.query, cfg: cfg}
	_, _ = rand.Read(r.id[:]) // it never fails: it ends the process instead
	return r, nil
}

// Run publishes until ctx ends, and then gives its lanes to the other relays. It blocks meanwhile. A failure of the
// database is logged, and Run goes on. Call it once for each relay.
func (r *Relay) Run(ctx context.Context) {
	w := &work{Relay: r, delays: newDelays(r.cfg.MaxBackoff)}
	defer r.leave(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		n, err := w.step(ctx)
		if err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("outbox: relay", "error", err)
		}
		if n == 0 {
			sleep(ctx, r.cfg.PollInterval)
		}
	}
}

// leaveTimeout bounds the farewell of a relay whose database does not answer. Its lease does the rest.
const leaveTimeout = 2 * time.Second

func (r *Relay) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	st := r.query.leave.Bind(named{"relay": r.id})
	if _, err := r.pool.Exec(ctx, st.SQL, st.Args...); err != nil {
		r.cfg.Logger.Warn("outbox: leave", "error", err)
	}
}

// sleep ends early if ctx does.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errResults: Publish broke its contract, and all messages of the batch count as failed.
var errResults = errors.New("outbox: Publish returned another number of errors than it got messages")
