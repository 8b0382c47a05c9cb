package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/fanonce/fanonce/retry"
)

// The defaults of a [Config].
const (
	DefaultLease       = 15 * time.Second
	DefaultPoll        = 500 * time.Millisecond
	DefaultMaxActive   = 1024
	DefaultMaxDeaths   = 5
	DefaultKeep        = 7 * 24 * time.Hour
	DefaultBackoffBase = time.Second
	DefaultBackoffCap  = 5 * time.Minute

	DefaultSweepInterval = time.Minute
	DefaultSweepBatch    = 1000
)

// Config configures an [Engine].
type Config struct {
	// Definitions are what the engine can run and take over; at least one is
	// required. Keep a version here until no saga of it is unfinished.
	Definitions []AnyDefinition
	// Lease is how long after its last sign of life an engine counts as dead,
	// and another takes its sagas over. It is renewed at a third of it. Zero
	// means [DefaultLease].
	Lease time.Duration
	// Poll is how often the engine looks for orphans, less up to a fifth at
	// random. It is also how long at most until a waiting Run sees what another
	// process finished; ten times as long while the saga sleeps. Zero means
	// [DefaultPoll].
	Poll time.Duration
	// MaxActive is how many sagas the engine drives before it stops taking
	// over more. What its own process starts is not bounded by it. A saga that has to
	// wait for longer than Lease is not driven meanwhile, by any engine. Half of the
	// places are divided among the Definitions, so that the sagas of one cannot take
	// all. Zero means [DefaultMaxActive].
	MaxActive int
	// MaxDeaths is how many engines may die under a saga, one after the other
	// and without getting it any further, before it is stuck. An engine that only lost its
	// lease and goes on, as after an outage of the database, has not died. After each
	// death but the first the saga waits longer for its next engine: between one and two
	// leases, then twice that. Zero means [DefaultMaxDeaths].
	MaxDeaths int
	// Keep is how long a final saga, and with it its result, can be looked up
	// before [Engine.RunSweeper] or [Engine.Sweep] deletes it. Zero means [DefaultKeep].
	// It is at most [MaxDuration], as the other times here are.
	Keep time.Duration
	// SweepInterval is how long after the beginning of a round [Engine.RunSweeper]
	// begins another, give or take a quarter. Zero means [DefaultSweepInterval].
	SweepInterval time.Duration
	// SweepBatch is how many sagas [Engine.RunSweeper] deletes at most in one
	// statement. Zero means [DefaultSweepBatch].
	SweepBatch int
	// Backoff is the wait before a call is tried again, on top of the attempts
	// that the client makes of one try. Its zero fields mean 1 s, doubled up to
	// 5 minutes, with full jitter. A step's [RetryPolicy] can say otherwise. Waits
	// beyond 1 s are in the journal.
	Backoff retry.Backoff

	// OnStuck is called for each saga that gets stuck, after that is stored, in
	// a goroutine of its own; [Engine.Close] waits for it. Nil means nobody is
	// called. A process that dies in between calls nobody: page on
	// [Engine.List] or [Engine.Stats] too.
	OnStuck func(ctx context.Context, r Record)
	// Observer hears of every try, saga and take-over: [Metrics], or your own.
	// Nil means nobody does.
	Observer Observer
	// Logger logs failures of tries at debug level, take-overs and compensated
	// sagas at info, parked sagas, journal errors and results that cannot be kept
	// at warn, stuck sagas and panics, with their stacks, at error. Nil is silent.
	// Sagas are logged by their ID, and never their key, input or results.
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
	fill(&cfg.MaxDeaths, DefaultMaxDeaths)
	fill(&cfg.Keep, DefaultKeep)
	fill(&cfg.SweepInterval, DefaultSweepInterval)
	fill(&cfg.SweepBatch, DefaultSweepBatch)
	fill(&cfg.Backoff.Base, DefaultBackoffBase)
	fill(&cfg.Backoff.Cap, max(DefaultBackoffCap, cfg.Backoff.Base))
	fill(&cfg.Backoff.Jitter, 1)
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Lease", cfg.Lease}, {"Poll", cfg.Poll}, {"Keep", cfg.Keep}, {"SweepInterval", cfg.SweepInterval}, {"Backoff.Base", cfg.Backoff.Base}, {"Backoff.Cap", cfg.Backoff.Cap}} {
		switch {
		case f.value < 0:
			return cfg, field(f.name, fmt.Errorf("%v is negative", f.value))
		case f.value > MaxDuration: // no saga could end
			return cfg, field(f.name, tooLong(f.value))
		}
	}
	switch {
	case cfg.MaxActive < 0:
		return cfg, field("MaxActive", fmt.Errorf("%d is negative", cfg.MaxActive))
	case cfg.SweepBatch < 0:
		return cfg, field("SweepBatch", fmt.Errorf("%d is negative", cfg.SweepBatch))
	case cfg.MaxDeaths < 0:
		return cfg, field("MaxDeaths", fmt.Errorf("%d is negative", cfg.MaxDeaths))
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

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// wait returns the wait before the next try of a call, of which n ended. Zero fields of
// the step's own backoff are the engine's.
func (cfg *Config) wait(own retry.Backoff, n int, asked time.Duration) time.Duration {
	b := filled(own, cfg.Backoff)
	wait := b.Cap
	if shift := max(n, 1) - 1; shift < 40 && b.Base <= b.Cap>>shift {
		wait = b.Base << shift
	}
	less := min(max(b.Jitter*cfg.Rand(), 0), 1)
	wait -= time.Duration(float64(wait) * less)
	return max(wait, asked, time.Millisecond)
}
