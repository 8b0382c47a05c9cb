package natsstore

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fanonce/fanonce/server/store"
)

const (
	// mostSubscriptions bounds the subscriptions of waiters in one process. Further waiters poll.
	mostSubscriptions = 4096
	pollFirst         = 20 * time.Millisecond // without a subscription
	pollLast          = time.Second
	// looks are how often, and echo is how soon, a waiter looks after it heard of a write. The message of a write
	// arrives before the write is stored: the replicas have yet to agree.
	looks = 6
	echo  = 2 * time.Millisecond
)

// waits are the runs that somebody in this process waits for. Each run has one goroutine and one subscription,
// whatever the number of waiters.
type waits struct {
	store *Store
	ctx   context.Context // ends with the store
	most  int             // mostSubscriptions, but in tests

	mu     sync.Mutex
	runs   map[waited]*wait
	closed bool
	wg     sync.WaitGroup
}

type waited struct {
	id    store.ID
	fence int64
}

// A wait is one run that has waiters. The mutex of waits guards its count.
type wait struct {
	ended   chan struct{}
	waiters int
	stop    context.CancelFunc
}

// Watch implements [store.WatchStore]. It subscribes to the subject of the key: every write of the key, also one that
// loses, makes the store look at the record. Behind that it polls, once a second.
func (s *Store) Watch(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	return s.waits.add(waited{id, fence})
}

func (w *waits) add(run waited) (ended <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		over := make(chan struct{})
		close(over)
		return over, func() {}
	}
	it := w.runs[run]
	if it == nil {
		ctx, cancel := context.WithCancel(w.ctx)
		it = &wait{ended: make(chan struct{}), stop: cancel}
		w.runs[run] = it
		subscribe := len(w.runs) <= w.most
		w.wg.Go(func() { w.follow(ctx, run, it, subscribe) })
	}
	it.waiters++
	return it.ended, sync.OnceFunc(func() { w.leave(run, it) })
}

func (w *waits) leave(run waited, it *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	it.waiters--
	if it.waiters == 0 {
		it.stop()
		w.remove(run, it)
	}
}

// remove is called with w.mu held.
func (w *waits) remove(run waited, it *wait) {
	if w.runs[run] == it {
		delete(w.runs, run)
	}
}

// close ends every wait.
func (w *waits) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wg.Wait() // their ctx is done
}

// follow closes the channel once the run has ended, or once the store cannot tell.
func (w *waits) follow(ctx context.Context, run waited, it *wait, subscribe bool) {
	defer it.stop()
	heard := make(chan *nats.Msg, 1) // one is enough: the messages decide nothing
	hears := false
	if subscribe {
		subject := w.store.stream.bucket.of(keySpace, run.id)
		sub, err := w.store.stream.conn.Subscribe(subject, func(m *nats.Msg) {
			select {
			case heard <- m:
			default:
			}
		})
		if hears = err == nil; hears {
			defer func() { _ = sub.Unsubscribe() }()
		}
	}
	pace := pace{hears: hears}
	for goesOn(ctx, w.store, run) {
		timer := time.NewTimer(pace.next())
		select {
		case <-heard:
			pace.hear()
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	w.mu.Lock()
	w.remove(run, it)
	w.mu.Unlock()
	close(it.ended)
}

// goesOn reports that the run has not ended. A failed read counts as the end, and so does the end of ctx.
func goesOn(ctx context.Context, s *Store, run waited) bool {
	m, err := s.stream.last(ctx, s.stream.bucket.of(keySpace, run.id))
	if err != nil || m.rev == 0 {
		return false
	}
	e, err := decode(run.id, m.rev, m.data)
	return err == nil && e.exists() && e.State == store.StateInProgress && e.Fence == run.fence
}

// A pace says when the next look is due.
type pace struct {
	hears bool // a subscription is there
	left  int  // looks left after a message
	last  time.Duration
}

func (p *pace) hear() { p.left, p.last = looks, 0 }

func (p *pace) next() time.Duration {
	switch {
	case p.left > 0: // soon: the write is on its way
		p.left--
		p.last = max(2*p.last, echo)
	case p.hears:
		p.last = pollLast
	default:
		p.last = min(max(2*p.last, pollFirst), pollLast)
	}
	return p.last
}
