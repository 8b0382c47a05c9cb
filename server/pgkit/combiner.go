package pgkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrQueueFull: a [Combiner] or [Gatherer] has as many waiting as it may have; nothing
// was sent.
var ErrQueueFull = errors.New("pgkit: queue full")

// What a zero [CombinerConfig] means.
const (
	DefaultMaxFlushes = 4
	DefaultMaxQueued  = 4096
)

const (
	// maxEntries and maxBytes bound a flush: a larger one makes those in it wait
	// longer than it saves.
	maxEntries = 256
	maxBytes   = 1 << 20
)

// A CombinerConfig has the choices that a [Combiner] leaves. Its zero value is
// ready to use.
type CombinerConfig struct {
	// MaxFlushes is how many flushes may be under way at once, each on a
	// connection of its own, whatever they wait for. So a disk, a standby or a
	// network that stalls takes no more of the pool. Writes that have to go alone
	// take at most half as many more. A pool of several connections keeps at least
	// one for others. Zero means [DefaultMaxFlushes], or half of the pool's connections
	// if that is less, and at least one.
	MaxFlushes int

	// MaxQueued is how many writes may wait for a flush. Further ones are
	// refused at once with [ErrQueueFull]: a server that is so far behind is not
	// helped by more. Zero means [DefaultMaxQueued].
	MaxQueued int

	// Settings is sent first in each flush of several writes, for settings that
	// are local to its transaction. The zero Statement sends nothing.
	Settings Statement
}

// A Combiner sends writes that wait at the same time in one transaction, so that
// they share a round trip and a commit. What can be sent through it, and how, is
// said by its lanes; see [NewLane].
//
// The first write that comes is sent at once, as a statement of its own. Those
// that come while it is under way wait for its end, and then go together: one of
// their callers leads the flush. No timer holds a write back.
//
// A flush that the server refused is sent again as the single statements of its writes, in
// one transaction. That shows which write the server refuses, or whose row another
// transaction has locked: its caller gets the error at once, and the others share a
// commit without it. A flush that changed nothing for another reason is taken apart: each
// caller sends its own write alone, a few at a time. Where a lane has it so (Again in
// [LaneConfig]) the writes of a flush come once more before that. A flush whose fate is
// unknown leaves the fate of all its writes unknown; see [Writer].
//
// A flush of which the server says nothing for five seconds loses its connection, whether or
// not callers wait, as a parked write does. While no write has been answered since, one flush at a time
// tries again.
//
// It is safe for concurrent use.
type Combiner struct {
	writer *Writer
	cfg    CombinerConfig
	lanes  []flusher
	idle   chan struct{} // closed when closed and without callers

	mu      sync.Mutex
	closed  bool
	callers int // in [Lane.Do]
	queue   []*entry
	traffic traffic // of flushes
	stalls  lookout
	singles singles
	dials   dials
	trials  int // flushes under way that began while the writer had no answers
}

// NewCombiner returns a combiner that sends through w. Make its lanes before its
// first use. It returns an error that names the field of cfg and its value.
func NewCombiner(w *Writer, cfg CombinerConfig) (*Combiner, error) {
	conns := int(w.pool.Config().MaxConns)
	switch {
	case cfg.MaxFlushes < 0 || cfg.MaxFlushes > mostOf(conns):
		return nil, fmt.Errorf("pgkit: MaxFlushes %d is not between 0 and %d, which leaves others one of the pool's %d connections",
			cfg.MaxFlushes, mostOf(conns), conns)
	case cfg.MaxQueued < 0:
		return nil, fmt.Errorf("pgkit: MaxQueued %d is negative", cfg.MaxQueued)
	case cfg.Settings.Err() != nil:
		return nil, fmt.Errorf("pgkit: Settings: %w", cfg.Settings.Err())
	}
	if cfg.MaxFlushes == 0 {
		cfg.MaxFlushes = min(DefaultMaxFlushes, max(1, conns/2))
	}
	if cfg.MaxQueued == 0 {
		cfg.MaxQueued = DefaultMaxQueued
	}
	c := &Combiner{writer: w, cfg: cfg, idle: make(chan struct{}), traffic: traffic{most: cfg.MaxFlushes}}
	c.stalls = lookout{lock: &c.mu, after: stallAfter}
	c.singles = singles{most: max(1, cfg.MaxFlushes/2), total: mostOf(conns)}
	return c, nil
}

// mostOf is how many of so many connections a combiner may use.
func mostOf(conns int) int { return max(1, conns-1) }

// Queued returns how many writes wait for a flush at this moment.
func (c *Combiner) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// Close refuses further writes with [ErrClosed] and waits until those that came
// before have their outcome, also those in the queue. When ctx ends it refuses
// what is still queued, and returns ctx's error. Close the [Writer] after it: that
// breaks what does not end. A second Close waits as well.
func (c *Combiner) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed && c.callers == 0 {
		close(c.idle)
	}
	c.closed = true
	c.mu.Unlock()
	select {
	case <-c.idle:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stalls.end()
		c.dials.end()
		return nil
	case <-ctx.Done():
		c.refuseQueued(ErrClosed)
		return ctx.Err()
	}
}

// arrive counts a caller, until it leaves.
func (c *Combiner) arrive() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.callers++
	return nil
}

func (c *Combiner) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callers--
	if c.closed && c.callers == 0 {
		close(c.idle)
	}
}
