package retry

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"
)

// A Budget bounds the retries of each service, over all calls. A retry takes one. A success
// puts back Ratio, and time puts back Refill. A failure puts back nothing, so a service that
// is down gets the first attempt of each call and few others.
//
// The zero Budget has the defaults. Set the fields before its first use. [New] rejects a
// Budget with a field out of range. A Budget is safe for concurrent use; do not copy it.
type Budget struct {
	// Ratio is the part of a retry that each success pays for, above 0 and at most 1. Zero
	// means 0.12: at most three retries for 25 successes in the long run. That is what
	// random failures of one request in ten need.
	Ratio float64
	// Reserve is how many retries there are at first, and the most that can be saved. It is
	// at least 1. Zero means 100. A small Reserve fails calls under ordinary random
	// failures, because those come in runs.
	Reserve float64
	// Refill is how many retries come back each second, so that a client with few calls
	// recovers after an outage. Zero means 0.2.
	Refill float64

	mu       sync.Mutex
	services map[string]*tokens
}

type tokens struct {
	left float64
	at   time.Time // when left was right; zero: never used
}

func (b *Budget) ratio() float64 { return cmp.Or(b.Ratio, 0.12) }

func (b *Budget) reserve() float64 { return cmp.Or(b.Reserve, 100) }

func (b *Budget) refill() float64 { return cmp.Or(b.Refill, 0.2) }

func (b *Budget) check() error {
	switch {
	case !(b.ratio() > 0 && b.ratio() <= 1): // written so that NaN is rejected
		return fmt.Errorf("%w: Budget.Ratio: %v is not above 0 and at most 1", ErrConfig, b.Ratio)
	case !(b.reserve() >= 1) || math.IsInf(b.Reserve, 0):
		return fmt.Errorf("%w: Budget.Reserve: %v is not at least 1", ErrConfig, b.Reserve)
	case !(b.refill() >= 0) || math.IsInf(b.Refill, 0):
		return fmt.Errorf("%w: Budget.Refill: %v is negative", ErrConfig, b.Refill)
	}
	return nil
}

// Left returns how many retries to the service the budget has now.
func (b *Budget) Left(service string) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.account(service).left
}

// take pays for one retry; false if there is not enough.
func (b *Budget) take(service string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.account(service)
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
		t.left = min(t.left+b.ratio(), b.reserve())
	}
}

// refund puts back what was taken for a retry that was not made.
func (b *Budget) refund(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, ok := b.services[service]; ok {
		t.left = min(t.left+1, b.reserve())
	}
}

// account returns the service's tokens as of now. b.mu is held.
func (b *Budget) account(service string) *tokens {
	now := time.Now()
	if b.services == nil {
		b.services = make(map[string]*tokens)
	}
	t, ok := b.services[service]
	if !ok {
		t = &tokens{left: b.reserve(), at: now}
		b.services[service] = t
	}
	t.left, t.at = min(t.left+now.Sub(t.at).Seconds()*b.refill(), b.reserve()), now
	return t
}
