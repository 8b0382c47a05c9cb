package pgkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// errAlone tells a caller to send its write by itself: the flush that it was in
// has changed nothing.
var errAlone = errors.New("pgkit: to be sent alone")

// errAgain tells it to send its write through the combiner once more: see
// [LaneConfig].Again.
var errAgain = errors.New("pgkit: to be sent again")

// An entry is a caller's write in a combiner.
type entry struct {
	lane  flusher
	of    any // what the lane made the entry for
	bytes int
	again bool          // it has been in a flush before
	wake  chan struct{} // of size 1: its stage is leading, or ended

	// Under the combiner's lock:
	stage stage
	flush *flush // that it was sent with
	err   error  // its outcome; set before wake, and read after
}

type stage uint8

const (
	stageQueued  stage = iota
	stageLeading       // has a slot, and is out of the queue
	stageSent          // in a flush
	stageEnded
)

// share makes e a part of a flush, leading one if that is due, and returns its
// outcome: errAlone, errAgain, or an error as of [Do].
func (c *Combiner) share(ctx context.Context, e *entry) error {
	lead, err := c.enter(e)
	if err != nil {
		return err
	}
	if !lead {
		select {
		case <-e.wake:
		case <-ctx.Done():
			if !stays(ctx) || !c.isSent(e) {
				return c.abandon(ctx, e)
			}
			<-e.wake
		}
		if lead, err = c.called(e); !lead {
			return err
		}
	}
	f, err := c.lead(ctx, e)
	if err != nil {
		return err
	}
	return c.oversee(ctx, e, f)
}

// enter queues e, unless its caller is to lead a flush.
func (c *Combiner) enter(e *entry) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.traffic.room(len(c.queue) + 1):
		c.traffic.take()
		e.stage = stageLeading
		return true, nil
	case len(c.queue) >= c.cfg.MaxQueued && !e.again: // that one was admitted before
		return false, fmt.Errorf("%w: %d", ErrQueueFull, len(c.queue))
	}
	c.queue = append(c.queue, e)
	return false, nil
}

// isSent reports whether e is in a flush that is under way.
func (c *Combiner) isSent(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.stage == stageSent
}

// called reports whether who was woken is to lead; else it has its outcome.
func (c *Combiner) called(e *entry) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.stage == stageLeading, e.err
}

// callNext lets who has waited longest lead a flush, if one may be opened. Every
// flush that ends or stalls, and every leader that gives up, calls it, so that a
// queue never waits for nobody. c.mu is held.
func (c *Combiner) callNext() {
	if len(c.queue) == 0 || !c.traffic.room(len(c.queue)) {
		return
	}
	e := c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	c.traffic.take()
	e.stage = stageLeading
	e.wake <- struct{}{}
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
		e.wake <- struct{}{}
	}
}

// abandon takes the caller of e, whose ctx has ended, out of the waiting, and
// returns what is known of its write. The others go on.
func (c *Combiner) abandon(ctx context.Context, e *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.stage {
	case stageQueued:
		i := slices.Index(c.queue, e)
		c.queue = slices.Delete(c.queue, i, i+1)
		return ctx.Err()
	case stageLeading:
		c.traffic.release(1)
		c.callNext()
		return ctx.Err()
	case stageSent:
		c.abandonFlush(e.flush)
		return fmt.Errorf("%w: %w", ErrFateUnknown, context.Cause(ctx))
	default:
		return e.err
	}
}
