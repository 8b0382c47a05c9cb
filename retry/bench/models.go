package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// A quota says whether a client may make one more retry. It is safe for
// concurrent use.
type quota interface {
	// retry pays for a retry after a failed attempt; false if there is not enough.
	retry() bool
	// bookSuccess books an attempt that succeeded, retried or not.
	bookSuccess(retried bool)
	// bookFailure books an attempt that failed.
	bookFailure()
}

// A model retries as the client of another protocol does.
type model struct {
	attempts      int
	wait, longest time.Duration
	jitter        func(time.Duration) time.Duration
	quota         quota
}

// awsSender is the standard mode of the AWS SDK for Go v2 (aws/retry): three
// attempts, full jitter, and a quota of 500 tokens.
func awsSender(t tuning) (sender, error) {
	m := model{attempts: 3, wait: time.Second, longest: 20 * time.Second, jitter: fullJitter, quota: &awsQuota{left: awsTokens}}
	return m.sender(t)
}

// grpcSender is a retry policy of gRPC as its proposal A6 has it: four attempts
// from 100 ms up to 1 s, and its example of a throttle.
func grpcSender(t tuning) (sender, error) {
	m := model{attempts: 4, wait: 100 * time.Millisecond, longest: time.Second, jitter: fifthJitter, quota: &grpcThrottle{left: grpcTokens}}
	return m.sender(t)
}

func (m model) sender(t tuning) (sender, error) {
	if t.wait > 0 {
		m.wait, m.longest = t.wait, t.longest
	}
	if t.attempts > 0 {
		m.attempts = t.attempts
	}
	once, err := plainSender(t)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, msg message) reply { return m.send(ctx, msg, once) }, nil
}

func (m model) send(ctx context.Context, msg message, once sender) reply {
	for attempt := 1; ; attempt++ {
		r := once(ctx, msg)
		if r.err == nil && r.status < http.StatusInternalServerError {
			m.quota.bookSuccess(attempt > 1)
			return r
		}
		m.quota.bookFailure()
		if attempt == m.attempts || !m.quota.retry() {
			return r
		}
		wait := min(m.wait<<(attempt-1), m.longest)
		select {
		case <-time.After(m.jitter(wait)):
		case <-ctx.Done():
			return r
		}
	}
}

func fullJitter(d time.Duration) time.Duration { return time.Duration(rand.Float64() * float64(d)) }

func fifthJitter(d time.Duration) time.Duration {
	return time.Duration((0.8 + 0.4*rand.Float64()) * float64(d))
}

const (
	awsTokens    = 500
	awsRetryCost = 5 // what a failure that is no timeout costs
)

// An awsQuota gives a retry that succeeded its price back, and every attempt
// that succeeded one token.
type awsQuota struct {
	mu   sync.Mutex
	left int
}

func (a *awsQuota) retry() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left < awsRetryCost {
		return false
	}
	a.left -= awsRetryCost
	return true
}

func (a *awsQuota) bookSuccess(retried bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left++
	if retried {
		a.left += awsRetryCost
	}
	a.left = min(a.left, awsTokens)
}

func (a *awsQuota) bookFailure() {}

const (
	grpcTokens = 10
	grpcRatio  = 0.1
)

// A grpcThrottle loses a token with every failure, gets a part of one back with
// every success, and allows retries while it is more than half full.
type grpcThrottle struct {
	mu   sync.Mutex
	left float64
}

func (g *grpcThrottle) retry() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left > grpcTokens/2
}

func (g *grpcThrottle) bookSuccess(bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = min(g.left+grpcRatio, grpcTokens)
}

func (g *grpcThrottle) bookFailure() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = max(g.left-1, 0)
}
