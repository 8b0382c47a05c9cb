package retry

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"
)

// A Budget bounds the retries of each service, over all calls. A retry takes one. A success
// puts back Ratio, and time puts back Refill. A failure puts back nothing, so a service that
// answers with failures, or not in time, gets the first attempt of each call and few others.
//
// A retry after a refused connection ([Verdict.Refused]) takes nothing. Nobody listened, so the
// retry is no load for the service, and calls outlast its restart however many there are. Their
// waits are spread instead: the more calls were refused since the last success, the longer they
// are, up to the Cap of the [Backoff].
//
// The zero Budget has the defaults. Set the fields before its first use. [New] rejects a
// Budget with a field out of range. A Budget is safe for concurrent use; do not copy it. It keeps
// no account of a service that has all its retries.
type Budget struct {
	// Ratio is the part of a retry that each success pays for, above 0 and at most 1. Zero
	// means 0.12: at most three retries for 25 successes in the long run. That is what
	// random failures of one request in ten need.
	Ratio float64
	// Reserve is how many retries there are at first, and the most that can be saved. It is
	// at least 1. Zero means 100. A small Reserve fails calls under ordinary random
	// failures, because those come in runs. math.Inf(1) switches the budget off: only
	// MaxAttempts and time bound the retries then.
	Reserve float64
	// Refill is how many retries come back each second, so that a client with few calls
	// recovers after an outage. Zero means 0.2.
	Refill float64

	mu       sync.Mutex
	services map[string]*tokens
	room     int // for accounts, before those that are full are dropped
}

// tokens is the account of a service that lacks retries or refuses connections.
type tokens struct {
	left float64
	at   time.Time // when left was right

	refused     int       // calls that were refused a connection since the last success
	first, last time.Time // when the first and the last of them was
	chance      float64   // what is taken off the first wait
}

func (b *Budget) ratio() float64 { return cmp.Or(b.Ratio, 0.12) }

func (b *Budget) reserve() float64 { return cmp.Or(b.Reserve, 100) }

func (b *Budget) refill() float64 { return cmp.Or(b.Refill, 0.2) }

func (b *Budget) check() error {
	switch {
	case !(b.ratio() > 0 && b.ratio() <= 1): // written so that NaN is rejected
		return fmt.Errorf("%w: Budget.Ratio: %v is not above 0 and at most 1", ErrConfig, b.Ratio)
	case !(b.reserve() >= 1):
		return fmt.Errorf("%w: Budget.Reserve: %v is not at least 1", ErrConfig, b.Reserve)
	case !(b.refill() >= 0) || math.IsInf(b.Refill, 0):
		return fmt.Errorf("%w: Budget.Refill: %v is negative", ErrConfig, b.Refill)
	}
	return nil
}

// Left returns how many retries to the service the budget has now; +Inf if it is switched off.
func (b *Budget) Left(service string) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	t, ok := b.services[service]
	if !ok {
		return b.reserve()
	}
	if left := b.settle(t, now); !b.isIdle(t, now) {
		return left
	}
	delete(b.services, service)
	return b.reserve()
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
	t, ok := b.services[service]
	if !ok {
		return
	}
	t.refused = 0
	if t.left = min(t.left+b.ratio(), b.reserve()); t.left == b.reserve() {
		delete(b.services, service)
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

// spread counts a call that the service refused a connection. It returns the span that the first
// wait of the call is a part of, and how much of it is taken off, in [0, 1). The span grows with
// the number of such calls since the last success, up to most.
//
// The waits of successive calls end a golden section of the span apart, whenever the calls began.
// That spreads any number of them evenly. With random waits twice as many as on average would end
// in some moments.
func (b *Budget) spread(service string, most time.Duration, random float64) (span time.Duration, off float64) {
	const enough = 5 // calls beside this one for the whole span
	b.mu.Lock()
	defer b.mu.Unlock()
	t, now := b.account(service), time.Now()
	if t.refused == 0 || now.Sub(t.last) > forgetRefused {
		t.refused, t.first, t.chance = 0, now, random
	}
	span, off = most/enough*time.Duration(min(t.refused, enough)), t.chance
	if span > 0 {
		off = math.Mod(off+float64(t.refused)*(math.Phi-1)+float64(now.Sub(t.first))/float64(span), 1)
	}
	t.refused++
	t.last = now
	return span, off
}

// forgetRefused is how long refused connections count without a further one.
const forgetRefused = time.Minute

// settle adds what time gives back, and returns what is left. b.mu is held.
func (b *Budget) settle(t *tokens, now time.Time) float64 {
	t.left, t.at = min(t.left+now.Sub(t.at).Seconds()*b.refill(), b.reserve()), now
	return t.left
}

// isIdle reports whether there is nothing to know of the account: it is full, and its service refuses
// no connections. b.mu is held.
func (b *Budget) isIdle(t *tokens, now time.Time) bool {
	return t.left == b.reserve() && (t.refused == 0 || now.Sub(t.last) > forgetRefused)
}

// account returns the service's tokens as of now. b.mu is held.
func (b *Budget) account(service string) *tokens {
	now := time.Now()
	t, ok := b.services[service]
	if !ok {
		b.drop(now)
		t = &tokens{left: b.reserve(), at: now}
		b.services[service] = t
	}
	b.settle(t, now)
	return t
}

// drop makes room for one more account. Each time that their number has doubled, it drops those
// that time has filled. b.mu is held.
func (b *Budget) drop(now time.Time) {
	if len(b.services) < b.room {
		return
	}
	maps.DeleteFunc(b.services, func(_ string, t *tokens) bool {
		b.settle(t, now)
		return b.isIdle(t, now)
	})
	if b.services == nil {
		b.services = make(map[string]*tokens)
	}
	b.room = max(2*len(b.services), 64)
}
