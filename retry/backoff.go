package retry

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A Backoff is how waits grow: it is a value without state, so that calls can
// share it. The wait before retry n (from 1) is Base doubled n-1 times, at most
// Cap, less a random part of it.
type Backoff struct {
	Base time.Duration // zero: the default of the field it is in
	Cap  time.Duration // not less than Base; zero: the default, or Base if that is longer
	// Jitter is the part of each wait that is random, above 0 and at most 1;
	// zero means 1, full jitter: callers that failed together come back apart.
	Jitter float64
}

// minWait keeps a retry loop from spinning where jitter leaves no wait at all.
const minWait = time.Millisecond

func (b Backoff) withDefaults(defaults Backoff) Backoff {
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
	wait := b.Cap
	if shift := max(n, 1) - 1; shift < 62 && b.Base <= b.Cap>>shift {
		wait = b.Base << shift
	}
	return max(wait-part(wait, b.Jitter*random), minWait)
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

func defaultRand() float64 { return rand.Float64() }
