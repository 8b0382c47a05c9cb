package pgkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxReads bounds a shared read. Its answers come together: a longer one would
// let all wait for the largest.
const maxReads = 64

// A ReadBatcher sends reads that wait at the same time in one statement. It serves reads as a
// [Combiner] serves writes, and is simpler: the fate of a read does not matter. The caller of the
// first read sends it at once, under its ctx, as a statement of its own. The reads that come while
// it is running share the next statement, which one of their callers sends. A statement that fails
// is taken apart: each of the others sends its own read alone, a few at a time. A statement that
// got no connection fails its leader alone.
//
// Statements without an answer for a while count as well: a server that stalls does not take the
// whole pool.
//
// It is safe for concurrent use. It starts no goroutine, and needs no Close.
type ReadBatcher[Q, A any] struct {
	db        Queryer
	maxQueued int
	cfg       BatchKindConfig[Q, A]
	alone     chan struct{} // bounds how many reads of failed statements are sent at a time

	mu      sync.Mutex
	queue   []*batchedRead[Q, A]
	limiter limiter // of statements
	stalls  lookout
}

// NewReadBatcher returns a read batcher that reads from db: a pool. While maxQueued reads wait
// further ones are refused with [ErrQueueFull]; zero means [DefaultMaxQueued], and a negative
// number lets no read wait. NewReadBatcher uses only One, ScanOne and Many of cfg, and their
// statements must change nothing and lock nothing. Each statement is sent after its reads were
// asked for, and sees all that was committed until then.
func NewReadBatcher[Q, A any](db Queryer, maxQueued int, cfg BatchKindConfig[Q, A]) *ReadBatcher[Q, A] {
	if maxQueued == 0 {
		maxQueued = DefaultMaxQueued
	}
	most := DefaultMaxFlushes
	if pool, ok := db.(*pgxpool.Pool); ok {
		most = min(most, max(1, int(pool.Config().MaxConns)/2))
	}
	g := &ReadBatcher[Q, A]{db: db, maxQueued: maxQueued, cfg: cfg, limiter: limiter{most: most}}
	g.alone = make(chan struct{}, max(1, most/2))
	g.stalls = lookout{lock: &g.mu, after: stallAfter}
	return g
}

// A batchedRead is a caller's read.
type batchedRead[Q, A any] struct {
	q      Q
	answer A
	ok     bool
	wake   chan struct{} // of size 1: it is to lead, or has ended; nil if it leads at once

	// Under the read batcher's lock, and fixed when wake is sent:
	stage stage
	alone bool // its shared statement failed
	gone  bool // its caller left after it was sent
}

// Do returns the row that answers q, and false if there is none. It blocks until
// the server has answered or ctx ends. Errors are pgx's, and [ErrQueueFull].
func (g *ReadBatcher[Q, A]) Do(ctx context.Context, q Q) (A, bool, error) {
	e := &batchedRead[Q, A]{q: q}
	if err := ctx.Err(); err != nil {
		return e.none(), false, err
	}
	lead, err := g.enter(e)
	if err != nil {
		return e.none(), false, err
	}
	if !lead {
		select {
		case <-e.wake:
		case <-ctx.Done():
			g.abandon(e)
			return e.none(), false, ctx.Err()
		}
	}
	if e.stage == stageLeading {
		return g.lead(ctx, e)
	}
	if e.alone {
		return g.apart(ctx, q)
	}
	return e.answer, e.ok, nil
}

// apart is one, for a read of several that failed together.
func (g *ReadBatcher[Q, A]) apart(ctx context.Context, q Q) (A, bool, error) {
	select {
	case g.alone <- struct{}{}:
		defer func() { <-g.alone }()
		return g.one(ctx, q)
	case <-ctx.Done():
		var none A
		return none, false, ctx.Err()
	}
}

func (e *batchedRead[Q, A]) none() (none A) { return none }

// Queued returns how many reads wait for a statement at this moment.
func (g *ReadBatcher[Q, A]) Queued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

// enter queues e, unless its caller is to lead.
func (g *ReadBatcher[Q, A]) enter(e *batchedRead[Q, A]) (lead bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.limiter.room(len(g.queue) + 1):
		g.limiter.take()
		e.stage = stageLeading
		return true, nil
	case len(g.queue) >= g.maxQueued:
		return false, fmt.Errorf("%w: %d", ErrQueueFull, len(g.queue))
	}
	e.wake = make(chan struct{}, 1)
	g.queue = append(g.queue, e)
	return false, nil
}

// giveUpSlot ends a statement with so many reads. g.mu is held.
func (g *ReadBatcher[Q, A]) giveUpSlot(reads int, stalled bool) {
	g.limiter.release(reads, stalled)
	g.callNext()
}

// callNext lets the caller that has waited longest lead the next statement, if one may be sent.
// g.mu is held.
func (g *ReadBatcher[Q, A]) callNext() {
	if len(g.queue) == 0 || !g.limiter.room(len(g.queue)) {
		return
	}
	e := g.queue[0]
	g.queue = slices.Delete(g.queue, 0, 1)
	g.limiter.take()
	e.stage = stageLeading
	e.wake <- struct{}{}
}

// abandon: the caller of e has gone. If e was sent, nobody waits for its answer.
func (g *ReadBatcher[Q, A]) abandon(e *batchedRead[Q, A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch e.stage {
	case stageQueued:
		i := slices.Index(g.queue, e)
		g.queue = slices.Delete(g.queue, i, i+1)
	case stageLeading:
		g.giveUpSlot(1, false)
	case stageSent:
		e.gone = true
	case stageEnded:
	}
}

// lead sends e, together with the queued reads.
func (g *ReadBatcher[Q, A]) lead(ctx context.Context, e *batchedRead[Q, A]) (A, bool, error) {
	others, w := g.fill(e)
	led, failed := len(others), true // a tracer may panic
	defer func() {
		g.end(w, 1+led)
		g.finish(others, failed)
	}()
	if len(others) == 0 {
		return g.one(ctx, e.q)
	}
	switch err := g.many(ctx, append(others, e)); {
	case err == nil:
	case neverConnected(err) && ctx.Err() == nil:
		g.requeue(others)
		others = nil
		return e.none(), false, err
	default:
		g.finish(others, true)
		others = nil
		return g.one(ctx, e.q)
	}
	failed = false
	return e.answer, e.ok, nil
}

// fill takes the reads that go with e out of the queue, and has their statement watched.
func (g *ReadBatcher[Q, A]) fill(e *batchedRead[Q, A]) ([]*batchedRead[Q, A], *watched) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.queue), maxReads-1)
	others := slices.Clone(g.queue[:n])
	g.queue = slices.Delete(g.queue, 0, n)
	for _, o := range others {
		o.stage = stageSent
	}
	e.stage = stageSent
	g.limiter.carried += n
	return others, g.stalls.add(func() {
		g.limiter.stall(1 + n)
		g.callNext()
	})
}

// end gives the slot of a statement with so many reads up.
func (g *ReadBatcher[Q, A]) end(w *watched, reads int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveUpSlot(reads, !g.stalls.remove(w))
}

// requeue puts the reads that were not sent back at the head of the queue, to wait for another
// leader.
func (g *ReadBatcher[Q, A]) requeue(questions []*batchedRead[Q, A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := slices.DeleteFunc(questions, func(e *batchedRead[Q, A]) bool { return e.gone })
	for _, e := range waiting {
		e.stage = stageQueued
	}
	g.queue = append(waiting, g.queue...)
}

// neverConnected reports that err is of an attempt to connect.
func neverConnected(err error) bool {
	var connecting *pgconn.ConnectError
	return errors.As(err, &connecting)
}

// finish gives the led reads their results.
func (g *ReadBatcher[Q, A]) finish(questions []*batchedRead[Q, A], failed bool) {
	g.mu.Lock()
	for _, e := range questions {
		e.stage, e.alone = stageEnded, failed
	}
	g.mu.Unlock()
	for _, e := range questions {
		e.wake <- struct{}{}
	}
}

func (g *ReadBatcher[Q, A]) one(ctx context.Context, q Q) (A, bool, error) {
	answer, err := One(ctx, g.db, g.cfg.One(q), g.cfg.ScanOne)
	if errors.Is(err, pgx.ErrNoRows) {
		return answer, false, nil
	}
	return answer, err == nil, err
}

func (g *ReadBatcher[Q, A]) many(ctx context.Context, questions []*batchedRead[Q, A]) error {
	qs := make([]Q, len(questions))
	for i, e := range questions {
		qs[i] = e.q
	}
	st, scan := g.cfg.Many(qs)
	_, err := look(ctx, g.db, st, func(rows pgx.Rows) (struct{}, error) {
		return struct{}{}, scatter(rows, questions, scan)
	})
	return err
}

// scatter gives each row to the question that it answers.
func scatter[Q, A any](rows pgx.Rows, questions []*batchedRead[Q, A], scan func(pgx.CollectableRow) (int, A, error)) error {
	defer rows.Close()
	for rows.Next() {
		i, answer, err := scan(rows)
		if err != nil {
			return err
		}
		if i < 0 || i >= len(questions) {
			return fmt.Errorf("%w: %d of %d", errStrayRow, i, len(questions))
		}
		questions[i].answer, questions[i].ok = answer, true
	}
	return rows.Err()
}
