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
	combiner *Combiner
	leader   *entry
	entries  []*entry // the leader's first; once it is sent, those that were not severed
	parts    []part   // its statements
	write    write
	crash    *crash // read by the leader, once it is woken

	// Under the combiner's lock:
	writes  int  // that it was sent with
	live    int  // callers that wait for it
	ended   bool // its slot was given up
	stalled bool
	alarm   *time.Timer // which goes off when it has stalled

	first [1]*entry // of entries
}

// lead sends a flush with e, whose caller has a slot, and whatever is queued once it has a connection. A flush of reads,
// or of a caller that stays, has ended when lead returns. If lead returns an error, that is e's outcome.
func (c *Combiner) lead(ctx context.Context, e *entry) error {
	conn, err := Acquire(ctx, c.pool)
	if err != nil {
		c.noConnection(ctx, e, err)
		return err
	}
	f := &flush{combiner: c, leader: e, writes: 1, write: write{conn: conn, flush: true}, first: [1]*entry{e}}
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
		return err
	}
	launched = true
	if c.writer == nil {
		err := f.send(ctx, conn.Conn())
		conn.Release()
		c.finish(f, err)
		return nil
	}
	if !stays(ctx) {
		e.prepareWake()
	}
	if err := c.writer.launch(ctx, &f.write, f.send, func(err error) { c.finish(f, err) }); err != nil {
		c.finish(f, err)
	}
	return nil
}

// fill takes the queued writes of the leader's node into f, as far as there is room.
func (c *Combiner) fill(f *flush) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials.resetPause()
	c.queue = slices.DeleteFunc(c.queue, f.takes())
	c.limiter.carried += len(f.entries) - 1
	for _, e := range f.entries {
		e.stage, e.flush = stageSent, f
	}
	f.writes = len(f.entries)
	f.live = f.writes
	f.alarm = time.AfterFunc(c.stallAfter, func() { c.stall(f) })
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
// one.
func (c *Combiner) stall(f *flush) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.ended {
		return
	}
	f.stalled = true
	if c.writer != nil {
		c.writer.overdue(&f.write)
	}
	c.limiter.stall(f.writes)
	c.callNext()
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
	if f.alarm != nil {
		f.alarm.Stop()
	}
	if !f.ended {
		f.ended = true
		c.release(f.leader, f.writes, f.stalled)
		c.callFreed()
	}
	for _, e := range f.entries {
		e.stage, e.err = stageEnded, err
	}
	c.mu.Unlock()
	for _, e := range f.entries {
		e.wakeCaller()
	}
}

// outcome is the result that each caller gets from a flush that ended with err.
func (f *flush) outcome(err error) error {
	switch {
	case err == nil, err == errAlone, f.writes == 1, errors.Is(err, ErrFateUnknown), errors.Is(err, ErrClosed): //nolint:errorlint // it is never wrapped
		return err
	default:
		return errAlone
	}
}

// compose makes the statements of f.
func (c *Combiner) compose(f *flush) error {
	asynchronous := c.isAsynchronous(f)
	if len(f.entries) == 1 {
		only := f.entries[0].kind.one(f.entries[0], asynchronous)
		f.parts = []part{only}
		return only.Err()
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

// isAsynchronous reports whether the commit of f may be.
func (c *Combiner) isAsynchronous(f *flush) bool {
	for _, e := range f.entries {
		if !e.kind.isAsynchronous(e) {
			return false
		}
	}
	return c.writer != nil && !lostLately(f.write.conn.Conn())
}

// send sends f. A panic in it, as in a user's tracer, must not end the process without a chance to
// recover, nor strand those who wait.
func (f *flush) send(ctx context.Context, conn *pgx.Conn) (err error) {
	defer func() {
		if v := recover(); v != nil {
			f.crash = &crash{v, debug.Stack()}
			_ = conn.Close(ctx) // in the middle of whatever it was
			err = f.crash
		}
	}()
	reads := f.combiner.writer == nil
	switch {
	case reads && len(f.parts) == 1, f.writes == 1 && isWhole(conn, f.parts[0].Statement):
		return sendOne(ctx, conn, f.parts[0])
	case reads:
		return sendReads(ctx, conn, f.parts)
	case f.writes == 1:
		return sendHearing(ctx, conn, f.parts[0])
	}
	err = sendTogether(ctx, conn, f.parts)
	if severable(err) {
		return f.combiner.sever(ctx, conn, f, err)
	}
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

func (c *crash) Error() string {
	return fmt.Sprintf("panic in a write: %v\n\n%s", c.value, c.stack)
}

// maxSevered is how many writes a flush loses one after the other before it is taken apart. Each
// costs it a round trip.
const maxSevered = 16

// severable reports whether err is the server's refusal of one of several statements, so that the
// others can do without that one.
func severable(err error) bool {
	switch Classify(err) {
	case FailureRefused, FailureLockTimeout:
		return true
	default:
		return false
	}
}

// sever sends the writes of f, which the server refused with cause, as their single statements in
// one transaction: the first that fails shows the write that caused the refusal. Its caller gets
// the error at once, and the others go again without it.
func (c *Combiner) sever(ctx context.Context, conn *pgx.Conn, f *flush, cause error) error {
	for range maxSevered {
		if conn.PgConn().TxStatus() != 'I' {
			if _, err := conn.Exec(ctx, "rollback"); err != nil {
				return &nothingChanged{err}
			}
		}
		failed, err := oneByOne(ctx, conn, f.entries)
		if failed == nil || !severable(err) {
			return err
		}
		if !c.drop(f, failed, err) {
			return nil
		}
		cause = err
	}
	return cause
}

// oneByOne sends the statements of the entries in one transaction. It returns the entry whose
// statement failed, if that is why it returns an error.
func oneByOne(ctx context.Context, conn *pgx.Conn, entries []*entry) (failed *entry, err error) {
	parts := make([]part, len(entries))
	answered := 0
	for i, e := range entries {
		parts[i] = e.kind.one(e, false)
		read := parts[i].read
		parts[i].read = func(rows pgx.Rows) error {
			answered = i
			err := read(rows)
			if err == nil {
				answered++
			}
			return err
		}
	}
	err = sendTogether(ctx, conn, parts)
	if err != nil && answered < len(entries) {
		failed = entries[answered]
	}
	return failed, err
}

// drop takes e, which failed with err, out of f, and tells its caller. It returns false if that was the last.
func (c *Combiner) drop(f *flush, e *entry, err error) bool {
	c.mu.Lock()
	f.entries = slices.DeleteFunc(f.entries, func(other *entry) bool { return other == e })
	e.stage, e.err = stageEnded, err
	if !e.gone {
		f.live--
	}
	if f.live == 0 && len(f.entries) > 0 {
		c.writer.detach(&f.write)
	}
	more := len(f.entries) > 0
	c.mu.Unlock()
	e.wakeCaller()
	return more
}
