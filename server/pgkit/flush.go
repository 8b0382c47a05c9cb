package pgkit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A flush is one transaction with the writes of several callers, or the one
// statement of a single caller.
type flush struct {
	entries []*entry // the leader's first
	conn    Held
	left    chan struct{}
	crash   *crash // read by the leader, once it is woken

	// Under the combiner's lock:
	live    int  // callers that wait for it
	slot    bool // it counts as under way
	watched *watched
}

// lead opens a flush for e, whose caller has a slot, and whatever is queued once
// it has a connection. If it returns an error, that is e's outcome.
func (c *Combiner) lead(ctx context.Context, e *entry) (*flush, error) {
	f := &flush{entries: []*entry{e}, left: make(chan struct{}), slot: true}
	launched := false
	defer func() {
		if launched {
			return
		}
		if f.conn != nil { // a lane failed to make its statement, perhaps with a panic
			f.conn.Release()
		}
		c.finish(f, errAlone)
	}()
	conn, err := c.writer.acquire(ctx)
	if err != nil {
		c.noConnection(ctx, err)
		return nil, err
	}
	f.conn = conn
	c.fill(f)
	write, err := c.compose(f)
	if err != nil {
		return nil, err
	}
	launched = true
	if err := c.writer.launch(ctx, conn, f.left, write, func(err error) { c.finish(f, err) }); err != nil {
		c.finish(f, err)
	}
	return f, nil
}

// noConnection spares those in the queue from finding out one after the other.
// What has to do with the leader alone is none of their business.
func (c *Combiner) noConnection(ctx context.Context, err error) {
	switch {
	case errors.Is(err, ErrBusy), errors.Is(err, ErrClosed):
		c.refuseQueued(err)
	case ctx.Err() == nil:
		c.refuseQueued(errAlone)
	}
}

// fill takes what is queued into f, as far as there is room.
func (c *Combiner) fill(f *flush) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes, n := f.entries[0].bytes, 0
	for n < len(c.queue) && n+1 < maxEntries && bytes+c.queue[n].bytes <= maxBytes {
		bytes += c.queue[n].bytes
		n++
	}
	f.entries = append(f.entries, c.queue[:n]...)
	c.traffic.carried += n
	c.queue = slices.Delete(c.queue, 0, n)
	for _, e := range f.entries {
		e.stage, e.flush = stageSent, f
	}
	f.live = len(f.entries)
	f.watched = c.stalls.add(func() { c.giveUpSlot(f) })
}

// giveUpSlot lets others go on: f has ended, or is stalled. c.mu is held.
func (c *Combiner) giveUpSlot(f *flush) {
	if !f.slot {
		return
	}
	f.slot = false
	c.traffic.release(len(f.entries))
	c.callNext()
}

// oversee waits with the leader.
func (c *Combiner) oversee(ctx context.Context, e *entry, f *flush) error {
	over := ctx.Done()
	if stays(ctx) {
		over = nil
	}
	select {
	case <-e.wake:
		if f.crash != nil {
			panic(f.crash) //nolint:forbidigo // it goes on where somebody can recover it
		}
		return e.err
	case <-over:
		return c.abandon(ctx, e)
	}
}

// abandonFlush: one of the callers of f has left. c.mu is held.
func (c *Combiner) abandonFlush(f *flush) {
	f.live--
	if f.live == 0 {
		c.writer.park(f.conn, f.left)
	}
}

// finish gives the callers of f their outcome, and its slot to the next.
func (c *Combiner) finish(f *flush, err error) {
	err = f.outcome(err)
	c.mu.Lock()
	c.stalls.remove(f.watched)
	c.giveUpSlot(f)
	for _, e := range f.entries {
		e.stage, e.err = stageEnded, err
		if err == errAgain && e.again { //nolint:errorlint // it never leaves this package, and is never wrapped
			e.err = errAlone
		}
	}
	c.mu.Unlock()
	for _, e := range f.entries {
		e.wake <- struct{}{}
	}
}

// outcome is what each caller is told of a flush that ended with err.
func (f *flush) outcome(err error) error {
	switch {
	case err == nil, err == errAlone, len(f.entries) == 1, errors.Is(err, ErrFateUnknown), errors.Is(err, ErrClosed): //nolint:errorlint // it is never wrapped
		return err
	case f.again(err):
		return errAgain
	default:
		return errAlone
	}
}

// again asks the lanes of f, which failed with err. Each of them hears of it, whatever
// the others say. A panic is the leader's, as one in a write.
func (f *flush) again(err error) (again bool) {
	defer func() {
		if v := recover(); v != nil {
			f.crash, again = &crash{v, debug.Stack()}, false
		}
	}()
	var asked []flusher
	for _, e := range f.entries {
		if !slices.Contains(asked, e.lane) {
			asked = append(asked, e.lane)
			again = e.lane.again(err) || again
		}
	}
	return again
}

// compose returns what sends f, with the statements made.
func (c *Combiner) compose(f *flush) (func(context.Context, *pgx.Conn) error, error) {
	if len(f.entries) == 1 {
		e := f.entries[0]
		write, err := e.lane.one(e)
		return f.caught(write), err
	}
	var parts []part
	if c.cfg.Settings.SQL != "" {
		parts = append(parts, part{c.cfg.Settings, skip})
	}
	for _, lane := range c.lanes {
		var entries []*entry
		for _, e := range f.entries {
			if e.lane == lane {
				entries = append(entries, e)
			}
		}
		if len(entries) > 0 {
			parts = append(parts, lane.many(entries))
		}
	}
	return f.caught(func(ctx context.Context, conn *pgx.Conn) error { return together(ctx, conn, parts) }), nil
}

// A crash is a panic in a write. It is raised again in its caller, or the leader of a flush, if that still
// waits; the others are told that their fate is unknown.
type crash struct {
	value any
	stack []byte
}

func (p *crash) Error() string {
	return fmt.Sprintf("pgkit: panic in a write: %v\n\n%s", p.value, p.stack)
}

// caught keeps a panic in write, as in a user's tracer, from ending the process
// without a chance to recover, and from stranding those who wait.
func (f *flush) caught(write func(context.Context, *pgx.Conn) error) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) (err error) {
		defer func() {
			if v := recover(); v != nil {
				f.crash = &crash{v, debug.Stack()}
				_ = conn.Close(ctx) // in the middle of whatever it was
				err = f.crash
			}
		}()
		return write(ctx, conn)
	}
}
