package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// The defaults of a [Config].
const (
	DefaultLease               = 15 * time.Second
	DefaultPoll                = 500 * time.Millisecond
	DefaultMaxActive           = 1024
	DefaultMaxRecoveryAttempts = 5
	DefaultKeep                = 7 * 24 * time.Hour
	DefaultBackoffBase         = time.Second
	DefaultBackoffCap          = 5 * time.Minute

	DefaultSweepInterval = time.Minute
	DefaultSweepBatch    = 100
)

// Config configures an [Engine].
type Config struct {
	// Definitions are what the engine can run and take over; at least one is
	// required. Keep a version here until no saga of it is unfinished.
	Definitions []AnyDefinition
	// Client makes the calls of the steps and undos that are operations. It is required if
	// a definition has one: [Open] checks that the client has the service. Nil is enough
	// for definitions whose steps and undos are all functions.
	Client *sdk.Client
	// Lease is how long after its last sign of life an engine counts as dead,
	// and another takes its sagas over. It is renewed at a third of it. Zero
	// means [DefaultLease].
	Lease time.Duration
	// Poll is how often the engine looks for unowned sagas, less up to a fifth at
	// random. It is also how long at most until a waiting Run sees what another
	// process finished; ten times as long while the saga sleeps. Zero means
	// [DefaultPoll]. It is at least 1 ms. Poll, Lease and SweepInterval are at most a year.
	Poll time.Duration
	// MaxActive is how many sagas the engine executes before it stops taking
	// over more. Sagas that its own process starts are not bounded by it. A saga that has to
	// wait for longer than Lease is not executed meanwhile, by any engine. Half of the
	// places are divided among the Definitions, so that the sagas of one cannot take
	// all. A saga whose function waits in Run for another saga needs no place meanwhile. Zero means [DefaultMaxActive].
	MaxActive int
	// MaxRecoveryAttempts is how many engines may die under a saga before it is stuck. They die one
	// after the other, and the saga makes no progress meanwhile. An engine that only lost its lease and continues, as
	// after an outage of the database, is not dead. After each death but the first the saga waits
	// longer for its next engine: between one and two leases, then twice that. Zero means
	// [DefaultMaxRecoveryAttempts].
	MaxRecoveryAttempts int
	// Keep is how long a final saga, and with it its result, can be looked up
	// before [Engine.RunSweeper] or [Engine.Sweep] deletes it. Zero means [DefaultKeep].
	// It is at most [MaxDuration], as the other times here are.
	Keep time.Duration
	// SweepInterval is how long after the beginning of a round [Engine.RunSweeper]
	// begins another, give or take a quarter. Zero means [DefaultSweepInterval].
	SweepInterval time.Duration
	// SweepBatch is how many sagas one statement of [Engine.RunSweeper] deletes.
	// Zero means [DefaultSweepBatch].
	SweepBatch int
	// Backoff is the wait before a call is tried again, on top of the attempts
	// that the client makes of one attempt. Its zero fields mean 1 s, doubled up to
	// 5 minutes, with full jitter. A step's [RetryPolicy] can say otherwise. Waits
	// beyond 1 s are in the journal.
	Backoff retry.Backoff

	// OnStuck is called for each saga that gets stuck, after the status is stored, in its own
	// goroutine. [Engine.Close] waits for it. Nil means that no function is called. A process
	// that dies before the call never makes it: page on [Engine.Reader] or [Engine.Stats] too.
	OnStuck func(ctx context.Context, r journal.Record)
	// Observer is told of every attempt, saga and take-over. Use [Metrics], or your own. A [Tracer] is told
	// more. Nil means no observer.
	Observer Observer
	// Logger logs failures of attempts at debug level, and take-overs and compensated sagas at
	// info. It logs deferred sagas, journal errors and results that cannot be stored at warn. It
	// logs stuck sagas and panics, with their stacks, at error. Nil is silent. Sagas are logged
	// by their ID, and never their key, input or results.
	Logger *slog.Logger

	// Rand returns the random part of waits, in [0, 1), and must be safe for
	// concurrent use; nil means math/rand/v2.
	Rand func() float64
}

// withDefaults returns cfg filled in, or an error naming the field and the
// value that it rejects.
func (cfg Config) withDefaults() (Config, error) {
	fill(&cfg.Lease, DefaultLease)
	fill(&cfg.Poll, DefaultPoll)
	fill(&cfg.MaxActive, DefaultMaxActive)
	fill(&cfg.MaxRecoveryAttempts, DefaultMaxRecoveryAttempts)
	fill(&cfg.Keep, DefaultKeep)
	fill(&cfg.SweepInterval, DefaultSweepInterval)
	fill(&cfg.SweepBatch, DefaultSweepBatch)
	if cfg.Backoff.Cap > 0 {
		fill(&cfg.Backoff.Base, min(DefaultBackoffBase, cfg.Backoff.Cap))
	}
	fill(&cfg.Backoff.Base, DefaultBackoffBase)
	fill(&cfg.Backoff.Cap, max(DefaultBackoffCap, cfg.Backoff.Base))
	fill(&cfg.Backoff.Jitter, 1)
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if err := cfg.checkDurations(); err != nil {
		return cfg, err
	}
	switch {
	case cfg.MaxActive < 0:
		return cfg, field("MaxActive", fmt.Errorf("%d is negative", cfg.MaxActive))
	case cfg.SweepBatch < 0:
		return cfg, field("SweepBatch", fmt.Errorf("%d is negative", cfg.SweepBatch))
	case cfg.MaxRecoveryAttempts < 0:
		return cfg, field("MaxRecoveryAttempts", fmt.Errorf("%d is negative", cfg.MaxRecoveryAttempts))
	case cfg.Poll < time.Millisecond:
		return cfg, field("Poll", fmt.Errorf("%v is less than 1ms", cfg.Poll))
	case cfg.Lease < 10*time.Millisecond:
		return cfg, field("Lease", fmt.Errorf("%v is less than 10ms", cfg.Lease))
	case cfg.Backoff.Cap < cfg.Backoff.Base:
		return cfg, field("Backoff.Cap", fmt.Errorf("%v is less than Base %v", cfg.Backoff.Cap, cfg.Backoff.Base))
	case !(cfg.Backoff.Jitter > 0 && cfg.Backoff.Jitter <= 1): // written so that NaN is rejected
		return cfg, field("Backoff.Jitter", fmt.Errorf("%v is not above 0 and at most 1", cfg.Backoff.Jitter))
	case len(cfg.Definitions) == 0:
		return cfg, field("Definitions", errors.New("empty"))
	}
	return cfg, nil
}

// maxInterval is the longest time between two things that an engine does again and again.
const maxInterval = 365 * 24 * time.Hour

// checkDurations returns an error of a time that is negative or too long.
func (cfg *Config) checkDurations() error {
	for _, f := range []struct {
		name     string
		value    time.Duration
		interval bool
	}{
		{"Lease", cfg.Lease, true}, {"Poll", cfg.Poll, true}, {"SweepInterval", cfg.SweepInterval, true},
		{"Keep", cfg.Keep, false}, {"Backoff.Base", cfg.Backoff.Base, false}, {"Backoff.Cap", cfg.Backoff.Cap, false},
	} {
		switch {
		case f.value < 0:
			return field(f.name, fmt.Errorf("%v is negative", f.value))
		case f.value > MaxDuration: // no saga could end
			return field(f.name, graph.TooLong(f.value))
		case f.interval && f.value > maxInterval: // a multiple of it would be no Duration
			return field(f.name, fmt.Errorf("%v is more than a year", f.value))
		}
	}
	return nil
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
