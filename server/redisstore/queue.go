package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

// A call is one script on its way to a server.
type call struct {
	script *script
	bucket *bucket
	keys   []string
	args   []any

	state atomic.Int32 // waiting, sent or withdrawn
	tries int
	done  chan struct{} // closed when value and err are set
	value any
	err   error
}

const (
	waiting int32 = iota
	sent
	withdrawn
)

func (c *call) finish(value any, err error) {
	c.value, c.err = value, err
	close(c.done)
}

// maxBatch bounds a pipeline: longer ones add latency and win nothing more.
const maxBatch = 256

// nextFlush is how many waiting calls open a further pipeline beside one that is on its way.
const nextFlush = 8

// stallAfter is how long calls wait behind pipelines of which none ends. Then a connection may be lost without a word, and
// a further pipeline takes them. It is more than a round trip, and short for a person.
const stallAfter = 50 * time.Millisecond

// A queue combines the calls for one server that come at the same time: they are one pipeline, and one WAIT. A single
// call is sent at once. A timer runs only while calls wait behind a pipeline that is on its way.
type queue struct {
	store  *Store
	client atomic.Pointer[redis.Client]

	mu       sync.Mutex
	calls    []*call
	flushes  int
	taken    time.Time // when a pipeline last took calls
	watching bool      // a timer looks for a stall
}

// add queues a call and sees to it that it is sent.
func (q *queue) add(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.calls) >= q.store.cfg.MaxQueued {
		c.finish(nil, fmt.Errorf("redisstore: %s: %w", c.script.name, &store.BusyError{Err: ErrQueueFull}))
		return
	}
	q.calls = append(q.calls, c)
	if q.flushes == 0 || q.flushes < q.store.cfg.MaxFlushes && len(q.calls) >= nextFlush*q.flushes {
		q.openFlush()
	} else {
		q.watchForStall()
	}
}

// openFlush begins a pipeline. The queue is locked.
func (q *queue) openFlush() {
	q.flushes++
	q.store.work.Go(q.flush)
}

// watchForStall looks, after a while, whether calls still wait. The queue is locked, and a pipeline is on its way. Several
// idle connections can be lost at once, as many as there are pipelines; so twice as many find one that is new.
func (q *queue) watchForStall() {
	if q.watching || q.flushes >= 2*q.store.cfg.MaxFlushes {
		return
	}
	q.watching = true
	time.AfterFunc(stallAfter, q.endStall)
}

// endStall opens a pipeline for calls that no other has taken in time.
func (q *queue) endStall() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watching = false
	if len(q.calls) == 0 { // and so no pipeline may be on its way, nor may the store be open
		return
	}
	if time.Since(q.taken) >= stallAfter && q.flushes < 2*q.store.cfg.MaxFlushes {
		q.openFlush()
	}
	q.watchForStall()
}

// flush sends batches until nothing waits.
func (q *queue) flush() {
	for {
		batch := q.take()
		if len(batch) == 0 {
			return
		}
		q.send(batch)
	}
}

func (q *queue) take() []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.calls), maxBatch)
	if n == 0 {
		q.flushes--
		q.calls = nil
		return nil
	}
	batch := q.calls[:n:n]
	q.calls, q.taken = q.calls[n:], time.Now()
	return batch
}

// send makes one pipeline of the calls that nobody has withdrawn, and finishes them or sends them again.
func (q *queue) send(batch []*call) {
	calls := batch[:0]
	confirm := false
	for _, c := range batch {
		if c.state.CompareAndSwap(waiting, sent) {
			calls = append(calls, c)
			confirm = confirm || c.script.confirmed && q.store.cfg.Replicas > 0
		}
	}
	if len(calls) == 0 {
		return
	}
	client := q.client.Load()
	pipe := client.Pipeline()
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = pipe.EvalSha(context.Background(), c.script.sha, c.keys, c.args...)
	}
	var wait *redis.IntCmd
	if confirm {
		wait = q.store.addWait(pipe)
	}
	_, _ = pipe.Exec(context.Background()) // each reply has its own error
	unconfirmed := confirmation(wait, q.store.cfg.Replicas)
	for i, c := range calls {
		value, err := replies[i].Result()
		switch {
		case err != nil && err != redis.Nil:
			q.store.handleError(c, q, err)
		case unconfirmed != nil && c.script.confirmed:
			c.finish(nil, unconfirmedError(c.script, unconfirmed))
		default:
			c.finish(value, nil)
		}
	}
}

// addWait makes the server answer the pipeline when enough replicas have what the connection has written and seen.
func (s *Store) addWait(pipe redis.Pipeliner) *redis.IntCmd {
	wait := redis.NewIntCmd(context.Background(), "wait", s.cfg.Replicas, s.cfg.WaitTimeout.Milliseconds())
	_ = pipe.Process(context.Background(), wait) // only queued
	return wait
}

// confirmation returns why the replies of a batch may be lost by a failover, or nil.
func confirmation(wait *redis.IntCmd, replicas int) error {
	if wait == nil {
		return nil
	}
	n, err := wait.Result()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	case n < int64(replicas):
		return fmt.Errorf("%w: %d of %d", ErrUnconfirmed, n, replicas)
	}
	return nil
}

// unconfirmedError is that of a call which the server executed. A write may still reach the replicas, and a repeat of
// the call asks for that again.
func unconfirmedError(s *script, err error) error {
	if s.writes {
		return fmt.Errorf("redisstore: %s: %w: %w", s.name, store.ErrFateUnknown, err)
	}
	return fmt.Errorf("redisstore: %s: %w", s.name, err)
}

// maxTries bounds how often a call is sent that a server refused without executing it.
const maxTries = 8

// handleError finishes a call after an error of the connection or the server, or sends it again where nothing happened.
func (s *Store) handleError(c *call, q *queue, err error) {
	outcome := classify(err)
	if c.tries++; c.tries > maxTries && outcome != unknown {
		outcome = refused
	}
	switch outcome {
	case noScript:
		s.loadScript(c, q)
	case elsewhere, later:
		s.nodes.reload()
		s.sendLater(c)
	case asking:
		s.ask(c, err)
	case unknown:
		s.nodes.reload()
		if c.script.writes {
			err = fmt.Errorf("%w: %w", store.ErrFateUnknown, err)
		}
		c.finish(nil, fmt.Errorf("redisstore: %s: %w", c.script.name, err))
	default:
		s.nodes.reload()
		c.finish(nil, refusal(c.script.name, err))
	}
}

// loadScript sends the text of the call's script to the server, and the call again.
func (s *Store) loadScript(c *call, q *queue) {
	if err := q.client.Load().ScriptLoad(context.Background(), c.script.text).Err(); err != nil {
		c.finish(nil, refusal(c.script.name, err))
		return
	}
	c.state.CompareAndSwap(sent, waiting)
	s.requeue(c)
}

// sendLater sends a call after a pause, to the server that then has its slot. The pause grows to a third of a second.
func (s *Store) sendLater(c *call) {
	pause := time.Duration(min(10<<c.tries, 320)) * time.Millisecond
	c.state.CompareAndSwap(sent, waiting) // its caller may withdraw it now
	timer := time.NewTimer(pause)
	s.work.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C:
			s.requeue(c)
		case <-s.closing:
			c.finish(nil, fmt.Errorf("redisstore: %s: %w", c.script.name, ErrClosed))
		}
	})
}

func (s *Store) requeue(c *call) {
	q, err := s.nodes.queueFor(context.Background(), c.bucket)
	if err != nil {
		c.finish(nil, refusal(c.script.name, err))
		return
	}
	q.add(c)
}

// do sends a script and waits for its reply. If ctx ends before the call is sent, nothing happens.
func (s *Store) do(ctx context.Context, script *script, b *bucket, keys []string, args ...any) (any, error) {
	c, err := s.begin(ctx, script, b, keys, args...)
	if err != nil {
		return nil, err
	}
	return s.end(ctx, c)
}

// begin sends a script.
func (s *Store) begin(ctx context.Context, script *script, b *bucket, keys []string, args ...any) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !s.enter() {
		return nil, fmt.Errorf("redisstore: %s: %w", script.name, ErrClosed)
	}
	defer s.work.Done()
	q, err := s.nodes.queueFor(ctx, b)
	if err != nil {
		return nil, refusal(script.name, err)
	}
	c := &call{script: script, bucket: b, keys: keys, args: args, done: make(chan struct{})}
	q.add(c)
	return c, nil
}

// end waits for the reply of a call.
func (s *Store) end(ctx context.Context, c *call) (any, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
	}
	switch {
	case c.state.CompareAndSwap(waiting, withdrawn):
		return nil, fmt.Errorf("redisstore: %s: %w", c.script.name, &store.BusyError{Err: ctx.Err()})
	case c.script.writes:
		return nil, fmt.Errorf("redisstore: %s: %w: %w", c.script.name, store.ErrFateUnknown, ctx.Err())
	default:
		return nil, fmt.Errorf("redisstore: %s: %w", c.script.name, ctx.Err())
	}
}
