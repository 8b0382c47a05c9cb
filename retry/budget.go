package retry

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// BudgetConfig configures a [Budget]; zero fields mean the defaults.
type BudgetConfig struct {
	// Ratio is the part of a retry that each success pays for, above 0 and at
	// most 1; zero means 0.12: at most three retries per 25 successes in the
	// long run, which is what random failures of one request in ten take.
	Ratio float64
	// Reserve is how many retries are there at first, and the most that can be
	// saved up; zero means 100. A small one starves calls under ordinary random
	// failures, which come in runs.
	Reserve float64
	// Refill is how many retries per second come back by themselves, so that a
	// client with few calls recovers after an outage; zero means 0.2.
	Refill float64
}

// A Budget bounds the retries of each service, over all calls. A retry takes
// one; success puts back [BudgetConfig.Ratio], time a little. Failures put back
// nothing, so a service that is down gets the first attempt of each call and
// hardly more. It is safe for concurrent use. The zero Budget is that of the zero
// BudgetConfig.
type Budget struct {
	mu       sync.Mutex
	cfg      BudgetConfig
	services map[string]*tokens // nil: cfg has no defaults yet
}

type tokens struct {
	left float64
	at   time.Time // when left was right; zero: never used
}

// NewBudget returns a full budget, or an error wrapping [ErrConfig].
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	cfg = cfg.withDefaults()
	switch {
	case !(cfg.Ratio > 0 && cfg.Ratio <= 1): // written so that NaN is rejected
		return nil, fmt.Errorf("%w: Budget.Ratio: %v is not above 0 and at most 1", ErrConfig, cfg.Ratio)
	case !(cfg.Reserve >= 1) || math.IsInf(cfg.Reserve, 0):
		return nil, fmt.Errorf("%w: Budget.Reserve: %v is not at least 1", ErrConfig, cfg.Reserve)
	case !(cfg.Refill >= 0) || math.IsInf(cfg.Refill, 0):
		return nil, fmt.Errorf("%w: Budget.Refill: %v is negative", ErrConfig, cfg.Refill)
	}
	return &Budget{cfg: cfg, services: make(map[string]*tokens)}, nil
}

func (cfg BudgetConfig) withDefaults() BudgetConfig {
	fill(&cfg.Ratio, 0.12)
	fill(&cfg.Reserve, 100)
	fill(&cfg.Refill, 0.2)
	return cfg
}

// Left returns how many retries to the service the budget has at the time now.
func (b *Budget) Left(service string, now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.account(service, now).left
}

// take pays for one retry; false if there is not enough.
func (b *Budget) take(service string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.account(service, now)
	if t.left < 1 {
		return false
	}
	t.left--
	return true
}

// earn books a success. It needs no clock: what time gives back is added when
// somebody asks, and in which order the two come makes no difference. A service
// without an account has all there is to have.
func (b *Budget) earn(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, ok := b.services[service]; ok {
		t.left = min(t.left+b.cfg.Ratio, b.cfg.Reserve)
	}
}

// refund puts back what was taken for a retry that was not made.
func (b *Budget) refund(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, ok := b.services[service]; ok {
		t.left = min(t.left+1, b.cfg.Reserve)
	}
}

// account returns the service's tokens as of now; a clock that went back adds
// nothing. b.mu is held.
func (b *Budget) account(service string, now time.Time) *tokens {
	if b.services == nil {
		b.cfg, b.services = b.cfg.withDefaults(), make(map[string]*tokens)
	}
	t, ok := b.services[service]
	if !ok {
		t = &tokens{left: b.cfg.Reserve, at: now}
		b.services[service] = t
	}
	if passed := now.Sub(t.at); passed > 0 {
		t.left = min(t.left+passed.Seconds()*b.cfg.Refill, b.cfg.Reserve)
		t.at = now
	}
	return t
}
