package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server"
)

var waiting = bench{
	name: "waiters", title: "duplicates that wait at another guard, as in another process",
	conditions: "Owner and waiter have a guard, a store and a pool each, as two processes do, in one process; handlers take 20 to 120 ms, all at once; rounds of waiters that listen and of those that poll take turns. From the owner's call returning to the waiter's. Statements are all that the waiters' side sent, by the server's statistics, with what it asked for all of them together. With NOTIFY the waiters' store listens. At the owner's guard are duplicates in the owner's process. Bare are goroutines that the owner tells by a channel, and that send SELECT 1 then: what the machine itself needs.",
	measure:    measureWaiters,
}

func measureWaiters(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	db, err := l.database(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	var polled, heard, near, told waits
	polling, err := openPair(ctx, db, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, polling.close(ctx)) }()
	hearing, err := openPair(ctx, db, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, hearing.close(ctx)) }()
	err = inTurns(waiterRounds*e.rounds, func(warm bool) error { return polled.add(ctx, polling, polling.ask, e.waiters, warm) },
		func(warm bool) error { return heard.add(ctx, hearing, hearing.ask, e.waiters, warm) },
		func(warm bool) error { return near.add(ctx, polling, polling.askOwner, e.waiters, warm) },
		func(warm bool) error { return told.add(ctx, polling, polling.beTold, e.waiters, warm) })
	if err != nil {
		return nil, err
	}
	return []figure{
		{Name: "waiters, NOTIFY", Prototype: "0.27 / 0.72 ms; 2", Measures: heard.measures(db, benchkit.AtMost(1), benchkit.AtMost(3))},
		{Name: "waiters, shared poller", Prototype: "p99 8.3 ms; 2", Measures: polled.measures(db, nil, benchkit.AtMost(10))},
		{Name: "… at the owner's guard", Measures: near.times(nil, nil)},
		{Name: "… bare", Measures: told.times(nil, nil)},
	}, nil
}

// waits are what rounds of waiters were like, in milliseconds and in statements by
// waiter.
type waits struct{ p50, p99, sent []float64 }

func (w waits) measures(db *database, p50, p99 *goal) []measure {
	return append(w.times(p50, p99), db.statements("statements per waiter", w.sent, benchkit.AtMost(3))...)
}

func (w waits) times(p50, p99 *goal) []measure {
	return []measure{
		spreadOf(w.p50).Measure("p50", milliseconds, p50),
		spreadOf(w.p99).Measure("p99", milliseconds, p99),
	}
}

// waiterRounds is how many rounds there are for each of others': one takes a fraction of a
// second, and the slowest hundredth of its waiters are three.
const waiterRounds = 5

// inTurns lets each do its rounds after one another's, and one to warm up before them:
// what else the machine does then hits all of them alike.
func inTurns(rounds int, do ...func(warm bool) error) error {
	for round := -1; round < rounds; round++ {
		for i := range do {
			if err := do[(i+round+1)%len(do)](round < 0); err != nil { // nobody always comes first
				return err
			}
		}
	}
	return nil
}

// A hearer is how a waiter comes to know that the run of a key has ended; the owner
// closes ended when its call has returned.
type hearer func(ctx context.Context, key childkey.Key, ended <-chan struct{}) error

// ask is a duplicate's call.
func (p *pair) ask(ctx context.Context, key childkey.Key, _ <-chan struct{}) error {
	return await(ctx, p.waiter.guard, key)
}

// askOwner is a duplicate's call in the owner's process.
func (p *pair) askOwner(ctx context.Context, key childkey.Key, _ <-chan struct{}) error {
	return await(ctx, p.owner.guard, key)
}

// beTold is as little as can be.
func (p *pair) beTold(ctx context.Context, _ childkey.Key, ended <-chan struct{}) error {
	<-ended
	_, err := p.waiter.pool.Exec(ctx, "select 1")
	return err
}

// add lets n wait. In a round that warms up connections are opened and plans are made,
// and nothing is added.
func (w *waits) add(ctx context.Context, p *pair, hear hearer, n int, warm bool) error {
	before, err := p.waiter.sent(ctx)
	if err != nil {
		return err
	}
	waited, err := p.wait(ctx, hear, n)
	if err != nil {
		return err
	}
	after, err := p.waiter.sent(ctx)
	if err != nil || warm {
		return err
	}
	w.p50 = append(w.p50, inMilliseconds(percentile(waited, 0.5)))
	w.p99 = append(w.p99, inMilliseconds(percentile(waited, 0.99)))
	w.sent = append(w.sent, (after-before)/float64(n))
	return nil
}

// A pair is what two processes have, in this one: one guard owns keys, the other's
// callers wait for them.
type pair struct {
	owner, waiter *guarded
}

func openPair(ctx context.Context, db *database, listen bool) (_ *pair, err error) {
	p := &pair{}
	counted, err := db.toCounted() // of the waiter
	if err != nil {
		return nil, err
	}
	var o guardOptions
	if listen {
		if o.store.Listen, err = pgx.ParseConfig(counted.url); err != nil {
			return nil, err
		}
	}
	if p.owner, err = openGuard(ctx, db, guardOptions{}); err != nil {
		return nil, err
	}
	if p.waiter, err = openGuard(ctx, counted, o); err != nil {
		return nil, errors.Join(err, p.owner.close(ctx))
	}
	return p, nil
}

func (p *pair) close(ctx context.Context) error {
	return errors.Join(p.owner.close(ctx), p.waiter.close(ctx))
}

// The handlers' times are spread evenly between these.
const leastWork, mostWork = 20 * time.Millisecond, 120 * time.Millisecond

// wait returns how long after the owner each of n waiters had the answer.
func (p *pair) wait(ctx context.Context, hear hearer, n int) ([]time.Duration, error) {
	waits, errs := make([]time.Duration, n), make([]error, 2*n)
	var running sync.WaitGroup
	for i := range n {
		key := newKey()
		claimed, ended, owned := make(chan struct{}), make(chan struct{}), make(chan time.Time, 1)
		work := leastWork + (mostWork-leastWork)*time.Duration(i)/time.Duration(n)
		running.Go(func() {
			errs[i] = runOwn(ctx, p.owner.guard, key, func() {
				close(claimed)
				time.Sleep(work)
			})
			owned <- time.Now()
			close(ended)
		})
		running.Go(func() {
			select {
			case <-claimed:
			case done := <-owned: // it never got so far
				owned <- done
				return
			}
			errs[n+i] = hear(ctx, key, ended)
			now := time.Now()
			waits[i] = max(0, now.Sub(<-owned))
		})
	}
	running.Wait()
	return waits, errors.Join(errs...)
}

// runOwn runs a handler that does the work.
func runOwn(ctx context.Context, g *server.Guard, key childkey.Key, work func()) error {
	_, replayed, err := server.Do(ctx, g, task(server.Keyed), key, 1, func(context.Context, int) (string, error) {
		work()
		return string(answer), nil
	})
	if err == nil && replayed {
		err = errNotFirst
	}
	return err
}

// await returns when it has the answer of another's run.
func await(ctx context.Context, g *server.Guard, key childkey.Key) error {
	t := task(server.Keyed)
	t.Wait = server.DefaultWaitCap
	out, replayed, err := server.Do(ctx, g, t, key, 1, func(context.Context, int) (string, error) { return "", errNoReplay })
	if err == nil && (!replayed || len(out) != len(answer)) {
		err = errNoReplay
	}
	return err
}
