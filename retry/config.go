package retry

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"time"
)

// The defaults of a [Config].
const (
	DefaultMaxAttempts      = 10
	DefaultMaxPolls         = 60
	DefaultRetryAfterCap    = time.Minute
	DefaultTimeout          = time.Minute
	DefaultAttemptTimeout   = 20 * time.Second
	DefaultMaxResponseBytes = 8 << 20
)

// Config configures a [Client]; the zero Config means the defaults.
type Config struct {
	// Transport makes the attempts; nil means one of the client's own ([NewTransport]).
	// It must call the hooks of net/http/httptrace as [http.Transport] does, or
	// not at all: from them the client knows whether anything was sent. It must
	// not retry by itself; what net/http repeats is counted and bounded.
	Transport http.RoundTripper

	// MaxAttempts is how many attempts one call gets, the first included. Waiting for a
	// run in progress spends none. If the caller of the inbound request in ctx retries that
	// request (wire.Inbound.CallerRetries), a call gets one attempt, so that the retries of
	// several hops do not multiply. Another one follows only if nothing was sent. Zero means
	// [DefaultMaxAttempts]: with the default Backoff the waits take about 10 s on
	// average, and at least 10 s while the service restarts and refuses connections.
	MaxAttempts int
	// Backoff is the wait before a retry; its zero fields mean 100 ms, doubled
	// up to 5 s, with full jitter. After a refused connection the waits are longer: see [Budget].
	Backoff Backoff
	// Poll is the wait between questions to a callee that is still running the
	// call; its zero fields mean 100 ms, doubled up to 2 s, with full jitter.
	Poll Backoff
	// MaxPolls is how many such questions one call asks; zero means
	// [DefaultMaxPolls].
	MaxPolls int
	// RetryAfterCap is the longest Retry-After that is waited for; a longer one
	// ends the call with [ErrRetryAfter]. Zero means [DefaultRetryAfterCap]. After
	// a 429 or a 503 with a Retry-After, other calls to the service with the same credential
	// wait too, for at most 5 s or until one of them succeeds.
	RetryAfterCap time.Duration

	// Timeout bounds the whole call, attempts and waits; a ctx that ends earlier wins. For a
	// request that passes through [Client.RoundTripper] no further attempt begins after
	// Timeout, and the one that is running goes on. Zero means [DefaultTimeout], or half of
	// what the Retention of the Profile leaves if that is less.
	Timeout time.Duration
	// AttemptTimeout bounds one attempt, up to the last byte of its answer, except for a
	// request that passes through [Client.RoundTripper]. An attempt that it ends is retried.
	// Zero means [DefaultAttemptTimeout]. The time that is left for the call bounds an
	// attempt too. An attempt over a connection that was used before gets at most two thirds of
	// it, unless it is the last one, because that connection can be dead.
	AttemptTimeout time.Duration

	// Budget bounds the retries to each service over all calls; share one
	// between clients of the same services. Nil means one with the defaults.
	Budget *Budget

	// MaxResponseBytes is the length of the longest body that is read. A call whose 2xx
	// answer is longer ends as Completed with [ErrResponseTooLarge]. [Client.Send] reads
	// 64 KiB of an answer that is not 2xx. [Client.Do] and [Client.RoundTripper] return such an
	// answer: they read as much of it as of a 2xx, and at least 64 KiB. Zero means [DefaultMaxResponseBytes].
	MaxResponseBytes int64

	// Prepare sets headers before each attempt, to sign the request or to refresh its
	// credentials. Nil means none. It gets a copy of the request and may read the body;
	// a request that passes through [Client.RoundTripper] needs GetBody for that. The body
	// that is sent is the call's own, whatever Prepare does with the copy. If Prepare
	// changes the method, the URL or a header of package wire, the attempt is not sent
	// ([ErrPayloadChanged]). Its error ends the call. It is called concurrently.
	Prepare func(attempt int, req *http.Request) error

	// Profile says how the services of the client take keys, and which of this library's
	// headers they get. [New] copies it. Make a client for each service that has a
	// profile of its own.
	//
	// Nil means that nothing is known of the services. Then a request that [Client.Do] or
	// [Client.RoundTripper] is given leaves with the header that it came with. [Client.Send]
	// sends the key as Idempotency-Key, in quotes, and Cancels and FirstSent of its Call, but
	// no other header of this library. [Fanonce] is the profile of guarded services.
	Profile *Profile

	// Observer hears of every attempt and call; nil means nobody does.
	Observer Observer
	// Logger logs every retry at debug level, every call that ends Unknown at
	// warn, and a reused key at error. Nil is silent. Keys are logged as
	// digests, bodies and URLs never.
	Logger *slog.Logger

	// Rand returns the random part of waits, in [0, 1), and must be safe for concurrent use;
	// nil means math/rand/v2. A Rand that always returns 0 gives the longest waits, without
	// jitter.
	Rand func() float64
}

// withDefaults returns cfg filled in, or an error naming the field and the
// value that it rejects.
func (cfg Config) withDefaults() (Config, error) {
	fill(&cfg.MaxAttempts, DefaultMaxAttempts)
	fill(&cfg.MaxPolls, DefaultMaxPolls)
	fill(&cfg.RetryAfterCap, DefaultRetryAfterCap)
	fill(&cfg.Timeout, cfg.Profile.longestCall())
	fill(&cfg.AttemptTimeout, min(DefaultAttemptTimeout, cfg.Timeout))
	fill(&cfg.MaxResponseBytes, DefaultMaxResponseBytes)
	cfg.Backoff = cfg.Backoff.withDefaults(Backoff{Base: 100 * time.Millisecond, Cap: 5 * time.Second, Jitter: 1})
	cfg.Poll = cfg.Poll.withDefaults(Backoff{Base: 100 * time.Millisecond, Cap: 2 * time.Second, Jitter: 1})
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if err := cfg.check(); err != nil {
		return Config{}, err
	}
	if cfg.Budget == nil {
		cfg.Budget = new(Budget)
	}
	return cfg, nil
}

func (cfg *Config) check() error {
	for _, f := range []struct {
		name  string
		value any
		bad   bool
	}{
		{"MaxAttempts", cfg.MaxAttempts, cfg.MaxAttempts < 0},
		{"MaxPolls", cfg.MaxPolls, cfg.MaxPolls < 0},
		{"MaxResponseBytes", cfg.MaxResponseBytes, cfg.MaxResponseBytes < 0},
		{"RetryAfterCap", cfg.RetryAfterCap, cfg.RetryAfterCap < 0},
		{"Timeout", cfg.Timeout, cfg.Timeout < 0},
		{"AttemptTimeout", cfg.AttemptTimeout, cfg.AttemptTimeout < 0},
	} {
		if f.bad {
			return fmt.Errorf("%w: %s: %v is negative", ErrConfig, f.name, f.value)
		}
	}
	if cfg.Budget != nil {
		if err := cfg.Budget.check(); err != nil {
			return err
		}
	}
	if err := cfg.Backoff.check("Backoff"); err != nil {
		return err
	}
	if err := cfg.Poll.check("Poll"); err != nil || cfg.Profile == nil {
		return err
	}
	return cfg.Profile.check(cfg.Timeout)
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Backoff says how waits grow: the wait before retry n (from 1) is Base doubled n-1 times,
// at most Cap, less a random part of it. It is a value without state, so calls can share it.
type Backoff struct {
	Base time.Duration // zero: the field's default or Cap, the shorter one
	Cap  time.Duration // not less than Base; zero: the default or Base, the longer one

	// Jitter is the part of each wait that is random, above 0 and at most 1;
	// zero means 1, full jitter: callers that failed together come back apart.
	Jitter float64
}

// minWait keeps a retry loop from spinning where jitter leaves no wait at all.
const minWait = time.Millisecond

func (b Backoff) withDefaults(defaults Backoff) Backoff {
	if b.Cap > 0 {
		fill(&b.Base, min(defaults.Base, b.Cap))
	}
	fill(&b.Base, defaults.Base)
	fill(&b.Cap, max(defaults.Cap, b.Base))
	fill(&b.Jitter, defaults.Jitter)
	return b
}

func (b Backoff) check(field string) error {
	switch {
	case b.Base < 0:
		return fmt.Errorf("%w: %s.Base: %v is negative", ErrConfig, field, b.Base)
	case b.Cap < b.Base:
		return fmt.Errorf("%w: %s.Cap: %v is less than Base %v", ErrConfig, field, b.Cap, b.Base)
	case !(b.Jitter > 0 && b.Jitter <= 1): // written so that NaN is rejected
		return fmt.Errorf("%w: %s.Jitter: %v is not above 0 and at most 1", ErrConfig, field, b.Jitter)
	}
	return nil
}

// wait returns the wait before retry n, which counts from 1; random is in [0, 1).
func (b Backoff) wait(n int, random float64) time.Duration {
	longest := b.longest(n)
	return max(longest-part(longest, b.Jitter*random), minWait)
}

// longest returns the wait before retry n without its random part.
func (b Backoff) longest(n int) time.Duration {
	if shift := max(n, 1) - 1; shift < 62 && b.Base <= b.Cap>>shift {
		return b.Base << shift
	}
	return b.Cap
}

// later returns what the callee asked for and up to a fifth more: everybody
// whom it turned away was told the same, and nobody may come earlier.
func later(asked time.Duration, random float64) time.Duration {
	more := part(asked, 0.2*random)
	if asked > math.MaxInt64-more {
		return asked
	}
	return asked + more
}

// part returns the fraction of d, which is held to [0, 1]: a Rand that breaks
// its promise must not make a wait negative.
func part(d time.Duration, fraction float64) time.Duration {
	if !(fraction > 0) {
		return 0
	}
	return min(time.Duration(float64(d)*min(fraction, 1)), d)
}
