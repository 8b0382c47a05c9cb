package natsstore

import (
	"context"
	"sync"
	"time"
)

const (
	probeEvery = 10 * time.Second // how old the estimate may be before the next use renews it
	probes     = 3                // the quickest of them counts
	// stepBack is the largest correction that the clock hides by standing still. It follows a larger one: the leader's
	// clock was set back, or another server with a clock behind became the leader.
	stepBack = time.Second
)

// A clock estimates the clock of the stream's leader: a lower bound of it, late by at most the time that an answer of
// the leader was on its way. A lease therefore never seems to be over before it is. Between probes it goes on with this
// process's monotonic clock, so nobody who sets this machine's clock moves it.
type clock struct {
	probe func(ctx context.Context) (time.Time, error) // the leader's clock
	ctx   context.Context                              // ends with the store

	mu      sync.Mutex
	base    time.Time // the leader's clock as its answer was sent
	since   time.Time // when the answer arrived
	last    time.Time // the latest time that now returned
	probing bool
	closed  bool
	wg      sync.WaitGroup
}

// set asks the leader.
func (c *clock) set(ctx context.Context) error {
	var base, since time.Time
	quickest := time.Duration(-1)
	for range probes {
		start := time.Now()
		t, err := c.probe(ctx)
		if err != nil {
			return err
		}
		arrived := time.Now()
		if took := arrived.Sub(start); quickest < 0 || took < quickest {
			quickest, base, since = took, t, arrived
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.since = base, since
	return nil
}

// now returns the leader's time. If the estimate is old it starts a probe, for later calls.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.since)
	if age > probeEvery && !c.probing && !c.closed {
		c.probing = true
		c.wg.Go(c.renew)
	}
	t := c.base.Add(age).UTC().Truncate(time.Microsecond) // the precision of a stored record
	if t.Before(c.last) && c.last.Sub(t) < stepBack {
		return c.last
	}
	c.last = t
	return t
}

func (c *clock) renew() {
	ctx, cancel := context.WithTimeout(c.ctx, probeEvery)
	defer cancel()
	_ = c.set(ctx) // the old estimate goes on, and the next call tries again
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
}

// close waits for a probe. The clock's ctx is done.
func (c *clock) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
}
