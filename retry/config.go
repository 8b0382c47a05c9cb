package retry

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// The defaults of a [Config].
const (
	DefaultMaxAttempts      = 10
	DefaultMaxPolls         = 60
	DefaultRetryAfterCap    = time.Minute
	DefaultTimeout          = time.Minute
	DefaultAttemptTimeout   = 20 * time.Second
	DefaultTimeoutMargin    = 20 * time.Millisecond
	DefaultAllowance        = 3
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
	// run in progress spends none. An inbound request in ctx may allow fewer. Zero means
	// [DefaultMaxAttempts]: with the default Backoff the waits take about 10 s on
	// average, which is longer than a service takes to restart.
	MaxAttempts int
	// Backoff is the wait before a retry; its zero fields mean 100 ms, doubled
	// up to 5 s, with full jitter.
	Backoff Backoff
	// Poll is the wait between questions to a callee that is still running the
	// call; its zero fields mean 100 ms, doubled up to 2 s, with full jitter.
	Poll Backoff
	// MaxPolls is how many such questions one call asks; zero means
	// [DefaultMaxPolls].
	MaxPolls int
	// RetryAfterCap is the longest Retry-After that is waited for; a longer one
	// ends the call with [ErrRetryAfter]. Zero means [DefaultRetryAfterCap].
	RetryAfterCap time.Duration

	// Timeout bounds the whole call, attempts and waits; a ctx that ends
	// earlier wins. After Timeout no further attempt begins for a request that passes
	// through [Client.RoundTripper], and the one that is running goes on. Zero means [DefaultTimeout].
	Timeout time.Duration
	// AttemptTimeout bounds one attempt, up to the last byte of its answer. It does not
	// bound a request that passes through [Client.RoundTripper]. An
	// attempt that it ends is retried. So that time is left for that, an attempt gets at
	// most two thirds of the time that its call has left, unless it is the last one.
	// Zero means [DefaultAttemptTimeout], or a third of Timeout if that is less; all of
	// Timeout if MaxAttempts is 1. [New] rejects one that is not less than Timeout, unless
	// MaxAttempts is 1.
	AttemptTimeout time.Duration
	// TimeoutMargin is taken off the time that the callee is told it has
	// (Request-Timeout-Ms), for the way back. Zero means [DefaultTimeoutMargin].
	TimeoutMargin time.Duration

	// Allowance is how many retries a call may cause in all, at this client and
	// at every hop below it, where ctx carries no inbound request that says
	// (see wire.Inbound; a fan-out splits it by setting one). The client spends
	// it on its own attempts first and passes on what they leave over, so that
	// hops do not multiply. Zero means MaxAttempts-1, or [DefaultAllowance] if that is
	// more. [New] rejects less than MaxAttempts-1, and more than wire.MaxRetryCount and
	// MaxAttempts-1.
	Allowance int
	// Budget bounds the retries to each service over all calls; share one
	// between clients of the same services. Nil means one with the defaults.
	Budget *Budget

	// MaxResponseBytes is the length of the longest body that is read. A call whose
	// 2xx answer is longer ends as Completed with [ErrResponseTooLarge]. Of others
	// [Client.Send] reads 64 KiB; [Client.Do] and [Client.RoundTripper], which give
	// them out, read as much as of a 2xx, and at least that. The answer to a request that
	// passes through the round tripper is not read. Zero means [DefaultMaxResponseBytes].
	MaxResponseBytes int64

	// Prepare is called before each attempt with the request that is about to
	// be sent, to sign it or to refresh its credentials; nil means nothing. It
	// must not change method, URL, body or the headers of package wire: then
	// the attempt is not sent ([ErrPayloadChanged]). Its error ends the call. It may read
	// the body. A request that passes through [Client.RoundTripper] needs GetBody for that.
	Prepare func(attempt int, req *http.Request) error

	// Profile says how the services of the client take keys, and which of this library's
	// headers they get. [New] copies it. Make a client for each service that has a
	// profile of its own.
	//
	// Nil means that nothing is known of the services. Then a request that [Client.Do] or
	// [Client.RoundTripper] is given leaves with the header that it came with: its key is
	// not spelled anew, and nothing is added. [Client.Send] sends the key in quotes, and
	// Cancels and FirstSent of its Call. No service gets the other headers of this
	// library. [Fanonce] is the profile of services that package server guards.
	Profile *Profile

	// Observer hears of every attempt and call, and of their beginnings if it is a
	// [Tracer]; nil means nobody does.
	Observer Observer
	// Logger logs every retry at debug level, every call that ends Unknown at
	// warn, and a reused key at error. Nil is silent. Keys are logged as
	// digests, bodies and URLs never.
	Logger *slog.Logger

	// Rand returns the random part of waits, in [0, 1), and must be safe for
	// concurrent use; nil means math/rand/v2. A Rand that always returns 0
	// makes every wait as long as it can be, without jitter.
	Rand func() float64
	// Now reads the clock; nil means [time.Now]. Timers are always package
	// time's, so tests of waits want testing/synctest and no Now.
	Now func() time.Time
}

// withDefaults returns cfg filled in, or an error naming the field and the
// value that it rejects.
func (cfg Config) withDefaults() (Config, error) {
	fill(&cfg.MaxAttempts, DefaultMaxAttempts)
	fill(&cfg.MaxPolls, DefaultMaxPolls)
	fill(&cfg.RetryAfterCap, DefaultRetryAfterCap)
	fill(&cfg.Timeout, DefaultTimeout)
	if cfg.MaxAttempts == 1 {
		fill(&cfg.AttemptTimeout, min(DefaultAttemptTimeout, cfg.Timeout))
	}
	fill(&cfg.AttemptTimeout, min(DefaultAttemptTimeout, cfg.Timeout/3))
	fill(&cfg.TimeoutMargin, DefaultTimeoutMargin)
	fill(&cfg.Allowance, max(DefaultAllowance, cfg.MaxAttempts-1))
	fill(&cfg.MaxResponseBytes, DefaultMaxResponseBytes)
	cfg.Backoff = cfg.Backoff.withDefaults(Backoff{Base: 100 * time.Millisecond, Cap: 5 * time.Second, Jitter: 1})
	cfg.Poll = cfg.Poll.withDefaults(Backoff{Base: 100 * time.Millisecond, Cap: 2 * time.Second, Jitter: 1})
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Rand == nil {
		cfg.Rand = defaultRand
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := cfg.check(); err != nil {
		return Config{}, err
	}
	if cfg.Budget == nil {
		cfg.Budget, _ = NewBudget(BudgetConfig{}) // the zero value is valid
	}
	return cfg, nil
}

func (cfg *Config) check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxAttempts", int64(cfg.MaxAttempts)},
		{"MaxPolls", int64(cfg.MaxPolls)},
		{"Allowance", int64(cfg.Allowance)},
		{"MaxResponseBytes", cfg.MaxResponseBytes},
	} {
		if f.value < 0 {
			return fmt.Errorf("%w: %s: %d is negative", ErrConfig, f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"RetryAfterCap", cfg.RetryAfterCap},
		{"Timeout", cfg.Timeout},
		{"AttemptTimeout", cfg.AttemptTimeout},
		{"TimeoutMargin", cfg.TimeoutMargin},
	} {
		if f.value < 0 {
			return fmt.Errorf("%w: %s: %v is negative", ErrConfig, f.name, f.value)
		}
	}
	if most := max(wire.MaxRetryCount, cfg.MaxAttempts-1); cfg.Allowance > most {
		return fmt.Errorf("%w: Allowance: %d, at most %d", ErrConfig, cfg.Allowance, most)
	}
	if cfg.Allowance < cfg.MaxAttempts-1 {
		return fmt.Errorf("%w: Allowance: %d leaves no room for the retries of MaxAttempts %d", ErrConfig, cfg.Allowance, cfg.MaxAttempts)
	}
	if cfg.AttemptTimeout >= cfg.Timeout && cfg.MaxAttempts > 1 {
		return fmt.Errorf("%w: AttemptTimeout: %v leaves no time for a second attempt within Timeout %v",
			ErrConfig, cfg.AttemptTimeout, cfg.Timeout)
	}
	if cfg.TimeoutMargin >= min(cfg.AttemptTimeout, cfg.Timeout) {
		return fmt.Errorf("%w: TimeoutMargin: %v leaves nothing of AttemptTimeout %v or Timeout %v",
			ErrConfig, cfg.TimeoutMargin, cfg.AttemptTimeout, cfg.Timeout)
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
