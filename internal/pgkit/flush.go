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
	leader  *entry
	entries []*entry // the leader's first; once it is sent, those that were not severed
	write   *write
	crash   *crash // read by the leader, once it is woken
	again   bool   // its kinds want it to go once more
	told    bool   // its kinds were told why it failed

	// Under the combiner's lock:
	writes  int  // that it was sent with
	live    int  // callers that wait for it
	ended   bool // its slot was given up
	stalled bool
	watched *watched
}

// lead opens a flush for e, whose caller has a slot, and whatever is queued once
// it has a connection. If it returns an error, that is e's outcome.
func (c *Combiner) lead(ctx context.Context, e *entry) (*flush, error) {
	conn, err := c.writer.pool.Acquire(ctx)
	if err != nil {
		c.noConnection(ctx, e, err)
		return nil, err
	}
	f := &flush{leader: e, entries: []*entry{e}, writes: 1, write: &write{conn: conn, flush: true}}
	launched := false
	defer func() {
		if !launched { // a kind failed to make its statement, perhaps with a panic
			conn.Release()
			c.finish(f, errAlone)
		}
	}()
	c.fill(f)
	do, err := c.compose(f)
	if err != nil {
		return nil, err
	}
	launched = true
	if err := c.writer.launch(ctx, f.write, do, func(err error) { c.finish(f, err) }); err != nil {
		c.finish(f, err)
	}
	return f, nil
}

// fill takes the queued writes into f, as far as there is room.
func (c *Combiner) fill(f *flush) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials.connected()
	if !f.leader.alone {
		bytes, n := f.leader.bytes, 0
		for n < len(c.queue) && n+1 < maxEntries && bytes+c.queue[n].bytes <= maxBytes {
			bytes += c.queue[n].bytes
			n++
		}
		f.entries = append(f.entries, c.queue[:n]...)
		c.limiter.carried += n
		c.queue = slices.Delete(c.queue, 0, n)
	}
	for _, e := range f.entries {
		e.stage, e.flush = stageSent, f
	}
	f.writes = len(f.entries)
	f.live = f.writes
	f.watched = c.stalls.add(func() { c.stall(f) })
}

// stall lets others go on where f has had no answer for a while, and bounds how long it waits for
// one. c.mu is held.
func (c *Combiner) stall(f *flush) {
	if f.ended {
		return
	}
	f.stalled = true
	c.writer.overdue(f.write)
	if !f.leader.alone {
		c.limiter.stall(f.writes)
		c.callNext()
	}
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
		c.writer.detach(f.write)
	}
}

// finish gives the callers of f their outcome, and its slot to the next.
func (c *Combiner) finish(f *flush, err error) {
	err = f.outcome(err)
	c.mu.Lock()
	c.stalls.remove(f.watched)
	if !f.ended {
		f.ended = true
		c.release(f.leader, f.writes, f.stalled)
		c.callFreed()
	}
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

// outcome is the result that each caller gets from a flush that ended with err.
func (f *flush) outcome(err error) error {
	switch {
	case err == nil, err == errAlone, f.writes == 1, errors.Is(err, ErrFateUnknown), errors.Is(err, ErrClosed): //nolint:errorlint // it is never wrapped
		return err
	case f.tell(err):
		return errAgain
	default:
		return errAlone
	}
}

// tell says to the kinds of f that it failed with err, once, and reports whether one of them wants it to go
// again. Each of them hears of it, whatever the others say. A panic is the leader's, as one in a write.
func (f *flush) tell(err error) bool {
	if f.told {
		return f.again
	}
	f.told = true
	defer func() {
		if v := recover(); v != nil {
			f.crash, f.again = &crash{v, debug.Stack()}, false
		}
	}()
	var asked []flusher
	for _, e := range f.entries {
		if !slices.Contains(asked, e.kind) {
			asked = append(asked, e.kind)
			f.again = e.kind.again(err) || f.again
		}
	}
	return f.again
}

// compose returns what sends f, with the statements made.
func (c *Combiner) compose(f *flush) (func(context.Context, *pgx.Conn) error, error) {
	if len(f.entries) == 1 {
		e := f.entries[0]
		write, err := e.kind.one(e)
		return f.caught(write), err
	}
	var parts []part
	if c.cfg.Settings.SQL != "" {
		parts = append(parts, part{c.cfg.Settings, skip})
	}
	f.entries = c.inOrder(f.entries, func(entries []*entry) { parts = append(parts, entries[0].kind.many(entries)) })
	return f.caught(func(ctx context.Context, conn *pgx.Conn) error {
		err := together(ctx, conn, parts)
		if severable(err) && !f.tell(err) && f.crash == nil {
			return c.sever(ctx, conn, f, err)
		}
		return err
	}), nil
}

// inOrder returns entries kind after kind, and calls do with those of each, which may sort them.
func (c *Combiner) inOrder(entries []*entry, do func([]*entry)) []*entry {
	ordered := make([]*entry, 0, len(entries))
	for _, kind := range c.kinds {
		begin := len(ordered)
		for _, e := range entries {
			if e.kind == kind {
				ordered = append(ordered, e)
			}
		}
		if begin < len(ordered) {
			do(ordered[begin:len(ordered):len(ordered)])
		}
	}
	return ordered
}

// A crash is a panic in a write. It is raised again in its caller, or the leader of a flush, if that still
// waits; the others are told that their fate is unknown.
type crash struct {
	value any
	stack []byte
}

func (p *crash) Error() string {
	return fmt.Sprintf("panic in a write: %v\n\n%s", p.value, p.stack)
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
