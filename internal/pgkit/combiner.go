package pgkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrQueueFull: a [Combiner] has as many waiting requests as it may have. Nothing was sent.
var ErrQueueFull = errors.New("queue full")

// These are the defaults of a zero [CombinerConfig].
const (
	DefaultMaxFlushes = 4
	DefaultMaxQueued  = 4096
)

const (
	// maxEntries and maxBytes bound a flush: the writes of a larger flush wait longer than the
	// flush saves.
	maxEntries = 256
	maxBytes   = 1 << 20
)

// A CombinerConfig has the choices that a [Combiner] leaves. Its zero value is
// ready to use.
type CombinerConfig struct {
	// MaxFlushes is how many flushes may run at once, each on a connection of its own, whatever
	// they wait for. So a disk, a standby or a network that stalls takes no more of the pool.
	// Writes that have to go alone take at most half as many connections more, and at least one. Zero means [DefaultMaxFlushes], or half of the
	// pool's connections if that is less, and at least one.
	MaxFlushes int

	// MaxQueued is how many writes may wait for a flush. Further writes are refused at once with
	// [ErrQueueFull]: more writes do not help a server that is so far behind. Those that finish work are admitted, see
	// [BatchKindConfig]. Zero means [DefaultMaxQueued].
	MaxQueued int

	// Settings is sent first in each flush of several writes, for settings that
	// are local to its transaction. The zero Statement sends nothing.
	Settings Statement

	// AsynchronousSettings is Settings for a flush whose commit may be asynchronous; see
	// [BatchKindConfig].Asynchronous. The zero Statement means that no such flush is.
	AsynchronousSettings Statement

	// Separate sends each request by itself and at once. No request waits for another, and the
	// other choices have no effect.
	Separate bool
}

// A Combiner sends writes that wait at the same time in one transaction, so that
// they share a round trip and a commit. Each of its
// batch kinds sends one kind of write; see [NewBatchKind].
//
// The first write that comes is sent at once, as a statement of its own. Writes that come while it
// is running wait for its end, and then go together. One of their callers leads the flush. No timer
// holds a write back.
//
// A flush that the server refused is sent again as the single statements of its writes, in one
// transaction. That shows which write the server refuses, or whose row another transaction has
// locked: its caller gets the error at once, and the others share a commit without it. A flush that
// changed nothing for another reason is taken apart: each caller sends its own write alone, a few
// at a time. A flush whose fate is unknown leaves the fate of all its writes unknown; see [Writer].
//
// A flush without a sign of the server for five seconds loses its connection, whether or not
// callers wait, as a detached write does. While no write has been answered since, one flush at a
// time tries again.
//
// [NewReadCombiner] returns a combiner for reads.
//
// It is safe for concurrent use.
type Combiner struct {
	pool    *pgxpool.Pool
	writer  *Writer // nil: for reads
	cfg     CombinerConfig
	kinds   []flusher
	singles chan struct{} // has those that are sent by themselves
	idle    chan struct{} // closed when closed and without callers
	refused chan struct{} // closed when what still waits is refused
	refuse  sync.Once     // closes refused

	mu      sync.Mutex
	closed  bool
	callers int // in [BatchKind.Do]
	queue   []*entry
	limiter limiter // of flushes
	dials   dials
	trials  int // running flushes that began while the writer had no answers

	stallAfter time.Duration // stallAfter
}

// NewCombiner returns a combiner that sends through w. Make its kinds before its
// first use. It returns an error that names the field of cfg and its value.
func NewCombiner(w *Writer, cfg CombinerConfig) (*Combiner, error) {
	c, err := newCombiner(w.pool, cfg)
	if err != nil {
		return nil, err
	}
	c.writer = w
	return c, nil
}

// NewReadCombiner is [NewCombiner] for reads, whose fate does not matter. The statements of its
// kinds must change nothing and lock nothing. One of the callers sends the statement of a flush,
// under its own ctx and without Settings. A statement that fails is taken apart. A caller that
// leaves gets the error of its ctx. Each statement is sent after its reads were asked for, and sees
// all that was committed until then. The combiner starts no goroutine, and needs no Close.
func NewReadCombiner(pool *pgxpool.Pool, cfg CombinerConfig) (*Combiner, error) {
	return newCombiner(pool, cfg)
}

func newCombiner(pool *pgxpool.Pool, cfg CombinerConfig) (*Combiner, error) {
	conns := int(pool.Config().MaxConns)
	switch {
	case cfg.MaxFlushes < 0 || cfg.MaxFlushes > mostOf(conns):
		return nil, fmt.Errorf("MaxFlushes %d is not between 0 and %d, which leaves others one of the pool's %d connections",
			cfg.MaxFlushes, mostOf(conns), conns)
	case cfg.MaxQueued < 0:
		return nil, fmt.Errorf("MaxQueued %d is negative", cfg.MaxQueued)
	case cfg.Settings.Err() != nil:
		return nil, fmt.Errorf("Settings: %w", cfg.Settings.Err())
	case cfg.AsynchronousSettings.Err() != nil:
		return nil, fmt.Errorf("AsynchronousSettings: %w", cfg.AsynchronousSettings.Err())
	}
	if cfg.MaxFlushes == 0 {
		cfg.MaxFlushes = min(DefaultMaxFlushes, max(1, conns/2))
	}
	if cfg.MaxQueued == 0 {
		cfg.MaxQueued = DefaultMaxQueued
	}
	c := &Combiner{pool: pool, cfg: cfg, idle: make(chan struct{}), refused: make(chan struct{}), limiter: limiter{most: cfg.MaxFlushes}, stallAfter: stallAfter}
	c.singles = make(chan struct{}, max(1, min(cfg.MaxFlushes/2, mostOf(conns)-cfg.MaxFlushes)))
	return c, nil
}

// silent reports whether the writer has had no answer since a write lost its connection for want of
// one. Reads go on meanwhile: each of them has its caller's bound.
func (c *Combiner) silent() bool { return c.writer != nil && c.writer.silent.Load() }

// mostOf is how many of so many connections a combiner may use.
func mostOf(conns int) int { return max(1, conns-1) }

// Queued returns how many writes wait for a flush at this moment.
func (c *Combiner) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// Close refuses further writes with [ErrClosed] and waits until earlier writes have their outcome,
// also those in the queue. When ctx ends it refuses the writes that are still queued, and returns
// ctx's error. Close the [Writer] after it: that breaks writes that do not end. A second Close
// waits as well.
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
		c.dials.end()
		return nil
	case <-ctx.Done():
		c.refuseQueued(ErrClosed)
		c.refuse.Do(func() { close(c.refused) })
		return ctx.Err()
	}
}

// arrive counts a caller, until it leaves.
func (c *Combiner) arrive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
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

const (
	// firstPause is how long a combiner opens no further flush after it could not get a connection,
	// and lastPause is the most that doubling makes of it.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// dials are a combiner's attempts to get a connection. The combiner's lock guards them.
type dials struct {
	paused bool
	pause  time.Duration // the next one; 0: firstPause
	timer  *time.Timer
}

func (d *dials) end() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// noConnection decides about the queue when the leader e got no connection. The end of e's own ctx
// does not concern the others. A server that refuses one more connection still answers on the
// connections of the pool. The others wait for these, because the next leader may be refused as
// well. If the pool has none, all callers get the error: nothing was sent.
func (c *Combiner) noConnection(ctx context.Context, e *entry, err error) {
	switch stat := c.pool.Stat(); {
	case errors.Is(err, ErrClosed):
		c.refuseQueued(err)
	case ctx.Err() != nil:
	case stat.AcquiredConns()+stat.IdleConns() == 0:
		c.refuseQueued(err)
	default:
		c.mu.Lock()
		c.pauseDials()
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.stage = stageEnded
	c.release(e, 1, false)
	c.callNext()
}

// pauseDials opens no further flush for a while, unless another flush frees its connection.
// c.mu is held.
func (c *Combiner) pauseDials() {
	d := &c.dials
	if d.paused || c.closed {
		return
	}
	d.paused = true
	d.pause = max(d.pause, firstPause)
	d.timer = time.AfterFunc(d.pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		d.paused = false
		c.callNext()
	})
	d.pause = min(2*d.pause, lastPause)
}

// resetPause notes that a leader got a connection. c.mu is held.
func (d *dials) resetPause() { d.pause = 0 }

// perFlush is how many requests must at least wait for each running statement before a further
// statement begins. A statement that begins at once carries one request, and takes the server's
// time from statements that carry many.
const perFlush = 4

// A limiter counts the flushes of a combiner that have no answer yet, and decides when another one begins. Its user's lock guards it.
type limiter struct {
	most    int // Statements at once, whether they have stalled or not.
	slots   int // Taken by statements that are about to be sent, or were sent a moment ago.
	stalled int // Taken by statements that have had no answer for a while.
	carried int // Requests in slots.
}

// room reports whether the waiting requests are enough for a further statement: perFlush for each
// running statement, and no fewer than the running statements carry on average. Without the average
// the first few of hundreds of callers that come back would go off by themselves, and most
// statements would carry eight. A stalled statement does not delay the next statement, but it keeps
// its connection.
func (l *limiter) room(waiting int) bool {
	switch {
	case l.slots+l.stalled >= l.most:
		return false
	case l.slots == 0:
		return true
	default:
		return waiting >= max(perFlush*l.slots, l.carried/l.slots)
	}
}

// take takes a slot for a statement that carries a request so far.
func (l *limiter) take() {
	l.slots++
	l.carried++
}

// stall notes that a statement with so many requests has had no answer for a while.
func (l *limiter) stall(requests int) {
	l.slots--
	l.stalled++
	l.carried -= requests
}

// release gives up the slot of a statement with so many requests.
func (l *limiter) release(requests int, stalled bool) {
	if stalled {
		l.stalled--
		return
	}
	l.slots--
	l.carried -= requests
}

// stallAfter is when a flush without an answer stops counting as running. It waits for a lock,
// a standby or a network, and the flushes behind it need not wait.
const stallAfter = 50 * time.Millisecond
