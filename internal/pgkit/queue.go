package pgkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// errAlone tells a caller to send its write by itself: the flush that it was in
// has changed nothing.
var errAlone = errors.New("to be sent alone")

// An entry is a caller's write in a combiner.
type entry struct {
	kind  flusher
	of    any // the request that the entry is part of
	bytes int
	place Place
	// finishes is that of the kind.
	finishes bool
	// wake is of size 1: its stage is leading, or ended. It is nil if the caller learns that without it.
	wake chan struct{}

	// Under the combiner's lock:
	stage stage
	flush *flush // that it was sent with
	err   error  // its outcome; set before wake, and read after
	trial bool   // it leads a flush that tries whether the server answers
	gone  bool   // its caller left after it was sent
}

// prepareWake makes ready for wakeCaller, before another goroutine knows e.
func (e *entry) prepareWake() {
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
	}
}

// wakeCaller tells the caller that it leads, or has its outcome.
func (e *entry) wakeCaller() {
	if e.wake != nil {
		e.wake <- struct{}{}
	}
}

type stage uint8

const (
	stageQueued  stage = iota
	stageLeading       // has a slot, and is out of the queue
	stageSent          // in a flush
	stageEnded
)

// enter queues e, unless its caller is to lead a flush.
func (c *Combiner) enter(e *entry) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.dials.paused && c.room(len(c.queue)+1):
		c.take(e)
		return true, nil
	case !e.finishes && len(c.queue) >= c.cfg.MaxQueued:
		return false, fmt.Errorf("%w: %d writes wait, which is Config.MaxQueued", ErrQueueFull, len(c.queue))
	}
	e.prepareWake()
	c.queue = slices.Insert(c.queue, c.placeOf(e), e)
	return false, nil
}

// placeOf returns the index at which e is queued: at the end, or behind the others that finish work. c.mu is held.
func (c *Combiner) placeOf(e *entry) int {
	if e.finishes {
		if i := slices.IndexFunc(c.queue, func(other *entry) bool { return !other.finishes }); i >= 0 {
			return i
		}
	}
	return len(c.queue)
}

// room reports whether a flush may begin where so many wait. c.mu is held.
func (c *Combiner) room(waiting int) bool {
	return c.limiter.room(waiting) && !(c.trials > 0 && c.silent())
}

// take makes e the leader of a flush. c.mu is held.
func (c *Combiner) take(e *entry) {
	c.limiter.take()
	e.stage = stageLeading
	if e.trial = c.silent(); e.trial {
		c.trials++
	}
}

// release gives up what e took, for a flush with so many writes. c.mu is held.
func (c *Combiner) release(e *entry, writes int, stalled bool) {
	if e.trial {
		e.trial = false
		c.trials--
	}
	c.limiter.release(writes, stalled)
}

// isSent reports whether e is in a running flush.
func (c *Combiner) isSent(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.stage == stageSent
}

// progress reports what the caller of e, which was woken, does next: it leads a flush, or has its outcome. A panic in the
// flush that it led goes on in it.
func (c *Combiner) progress(e *entry) (lead, ended bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := e.flush; f != nil && f.leader == e && f.crash != nil {
		panic(f.crash) //nolint:forbidigo // it goes on where somebody can recover it
	}
	return e.stage == stageLeading, e.stage == stageEnded, e.err
}

// callNext lets the caller that has waited longest lead a flush, if it may. Every flush that ends or stalls, and every
// leader that gives up, calls it, so that a queue always has a leader. c.mu is held.
func (c *Combiner) callNext() {
	if len(c.queue) == 0 || c.dials.paused || !c.room(len(c.queue)) {
		return
	}
	e := c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	c.take(e)
	e.wakeCaller()
}

// callFreed is callNext where a connection has become free, which needs no dial. c.mu is held.
func (c *Combiner) callFreed() {
	paused := c.dials.paused
	c.dials.paused = false
	c.callNext()
	c.dials.paused = paused
}

// refuseQueued gives err to all that are queued.
func (c *Combiner) refuseQueued(err error) {
	c.mu.Lock()
	refused := c.queue
	c.queue = nil
	for _, e := range refused {
		e.stage, e.err = stageEnded, err
	}
	c.mu.Unlock()
	for _, e := range refused {
		e.wakeCaller()
	}
}

// abandon ends the wait of the caller of e, whose ctx has ended, and returns the known fate of its
// write. The others go on.
func (c *Combiner) abandon(ctx context.Context, e *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.stage {
	case stageQueued:
		i := slices.Index(c.queue, e)
		c.queue = slices.Delete(c.queue, i, i+1)
		return ctx.Err()
	case stageLeading:
		c.release(e, 1, false)
		c.callNext()
		return ctx.Err()
	case stageSent:
		e.gone = true
		if c.writer == nil {
			return ctx.Err()
		}
		c.abandonFlush(e.flush)
		return fmt.Errorf("%w: %w", ErrFateUnknown, context.Cause(ctx))
	default:
		return e.err
	}
}
