package pgkit

import (
	"context"
	"errors"
	"time"
)

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

// connected notes that a leader got a connection. c.mu is held.
func (d *dials) connected() { d.pause = 0 }
