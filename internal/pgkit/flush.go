package pgkit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A flush is one transaction with the writes of several callers, or the one
// statement of a single caller.
type flush struct {
	leader  *entry
	entries []*entry // the leader's first; once it is sent, those that were not severed
	only    part     // the statement of a single entry
	parts   []part   // those of several
	write   write
	crash   *crash // read by the leader, once it is woken
	again   bool   // its kinds want it to go once more
	told    bool   // its kinds were told why it failed

	// Under the combiner's lock:
	writes  int  // that it was sent with
	live    int  // callers that wait for it
	ended   bool // its slot was given up
	stalled bool
	began   time.Time

	first [1]*entry // of entries
}

// lead opens a flush for e, whose caller has a slot, and whatever is queued once
// it has a connection. If it returns an error, that is e's outcome.
func (c *Combiner) lead(ctx context.Context, e *entry) (*flush, error) {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		c.noConnection(ctx, e, err)
		return nil, err
	}
	f := &flush{leader: e, writes: 1, write: write{conn: conn, flush: true}, first: [1]*entry{e}}
	f.entries = f.first[:]
	launched := false
	defer func() {
		if !launched { // a kind failed to make its statement, perhaps with a panic
			conn.Release()
			c.finish(f, errAlone)
		}
	}()
	c.fill(f)
	if err := c.compose(f); err != nil {
		return nil, err
	}
	launched = true
	if c.writer == nil {
		err := c.send(ctx, conn.Conn(), f)
		conn.Release()
		c.finish(f, err)
		return f, nil
	}
	do := func(ctx context.Context, conn *pgx.Conn) error { return c.send(ctx, conn, f) }
	if !stays(ctx) {
		e.waits()
	}
	if err := c.writer.launch(ctx, &f.write, do, func(err error) { c.finish(f, err) }); err != nil {
		c.finish(f, err)
	}
	return f, nil
}

// fill takes the queued writes of the leader's node into f, as far as there is room.
func (c *Combiner) fill(f *flush) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials.connected()
	if !f.leader.alone {
		c.queue = slices.DeleteFunc(c.queue, f.takes())
		c.limiter.carried += len(f.entries) - 1
	}
	for _, e := range f.entries {
		e.stage, e.flush = stageSent, f
	}
	f.writes = len(f.entries)
	f.live = f.writes
	c.watch(f)
}

// takes returns a function that takes an entry of the queue into f, unless it is of another node or f is full.
func (f *flush) takes() func(*entry) bool {
	bytes, full := f.leader.bytes, false
	return func(e *entry) bool {
		if full || e.place.Node != f.leader.place.Node {
			return false
		}
		if full = len(f.entries) == maxEntries || bytes+e.bytes > maxBytes; full {
			return false
		}
		bytes += e.bytes
		f.entries = append(f.entries, e)
		return true
	}
}

// stall lets others go on where f has had no answer for a while, and bounds how long it waits for
// one. c.mu is held.
func (c *Combiner) stall(f *flush) {
	if f.ended {
		return
	}
	f.stalled = true
	if c.writer != nil {
		c.writer.overdue(&f.write)
	}
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
	if e.wake != nil {
		select {
		case <-e.wake:
		case <-over:
			return c.abandon(ctx, e)
		}
	}
	if f.crash != nil {
		panic(f.crash) //nolint:forbidigo // it goes on where somebody can recover it
	}
	return e.err
}

// abandonFlush: one of the callers of f has left. c.mu is held.
func (c *Combiner) abandonFlush(f *flush) {
	f.live--
	if f.live == 0 {
		c.writer.detach(&f.write)
	}
}

// finish gives the callers of f their outcome, and its slot to the next.
func (c *Combiner) finish(f *flush, err error) {
	err = f.outcome(err)
	c.mu.Lock()
	c.unwatch(f)
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
		e.awake()
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

// compose makes the statements of f.
func (c *Combiner) compose(f *flush) error {
	asynchronous := c.asynchronous(f)
	if len(f.entries) == 1 {
		f.only = f.entries[0].kind.one(f.entries[0], asynchronous)
		return f.only.Err()
	}
	settings := c.cfg.Settings
	if asynchronous && c.cfg.AsynchronousSettings.SQL != "" {
		settings = c.cfg.AsynchronousSettings
	}
	if settings.SQL != "" {
		f.parts = append(f.parts, part{settings, skip})
	}
	f.entries = c.inOrder(f.entries, func(entries []*entry) { f.parts = append(f.parts, entries[0].kind.many(entries)...) })
	return nil
}

// asynchronous reports whether the commit of f may be.
func (c *Combiner) asynchronous(f *flush) bool {
	for _, e := range f.entries {
		if !e.kind.asynchronous(e) {
			return false
		}
	}
	return c.writer != nil && !lostLately(f.write.conn.Conn())
}

// send sends f. A panic in it, as in a user's tracer, must not end the process without a chance to
// recover, nor strand those who wait.
func (c *Combiner) send(ctx context.Context, conn *pgx.Conn, f *flush) (err error) {
	defer func() {
		if v := recover(); v != nil {
			f.crash = &crash{v, debug.Stack()}
			_ = conn.Close(ctx) // in the middle of whatever it was
			err = f.crash
		}
	}()
	switch {
	case c.writer == nil && f.parts == nil:
		return readPart(ctx, conn, f.only)
	case c.writer == nil:
		return readParts(ctx, conn, f.parts)
	case f.parts == nil:
		_, err := alone(ctx, conn, f.only.Statement, func(rows pgx.Rows) (struct{}, error) { return struct{}{}, f.only.read(rows) })
		return err
	}
	err = together(ctx, conn, f.parts)
	if severable(err) && !f.tell(err) && f.crash == nil {
		return c.sever(ctx, conn, f, err)
	}
	return err
}

// readParts sends statements that change nothing in one round trip.
func readParts(ctx context.Context, conn *pgx.Conn, parts []part) error {
	if len(parts) == 1 {
		return readPart(ctx, conn, parts[0])
	}
	batch, statements := new(pgx.Batch), make([]string, len(parts))
	for i, p := range parts {
		if err := p.Err(); err != nil {
			return err
		}
		statements[i] = p.SQL
		batch.Queue(p.SQL, p.Args...).Query(p.read)
	}
	_, err := named(ctx, conn, func() (none struct{}, err error) { return none, conn.SendBatch(ctx, batch).Close() }, statements...)
	return err
}

func readPart(ctx context.Context, conn *pgx.Conn, p part) error {
	if err := p.Err(); err != nil {
		return err
	}
	_, err := named(ctx, conn, func() (none struct{}, err error) {
		rows, err := conn.Query(ctx, p.SQL, p.Args...)
		if err == nil {
			err = p.read(rows)
		}
		return none, err
	}, p.SQL)
	return err
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
