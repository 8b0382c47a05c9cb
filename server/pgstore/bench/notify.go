package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/pgstore"
)

const (
	waitersOnSome = "waiters on 1 % of the keys"
	nobodyWaits   = "nobody waits"
	waitedCallers = 64
	// waitedWork gives a waiter the time to come before the completion.
	waitedWork = 5 * time.Millisecond
)

var notify = bench{
	name: "notify", title: "what waiters cost everybody else, 64 callers",
	conditions: "Every hundredth key's handler takes 5 ms, in both variants; in one of them a caller in another process, which listens, waits for each of those.",
	measure:    measureNotify,
}

func measureNotify(ctx context.Context, l *lab, e effort) ([]figure, error) {
	fast, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	slow, err := l.slowPostgres(ctx)
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, disk := range []struct {
		name      string
		prototype string
		server    *postgres
	}{{"notify, fast disk", "no loss (always-NOTIFY 0.24)", fast}, {"notify, slow disk", "no loss (always-NOTIFY 0.05)", slow}} {
		r, err := match(ctx, e,
			func() (*variant, error) { return waitedVariant(ctx, disk.server, waitersOnSome, true) },
			func() (*variant, error) { return waitedVariant(ctx, disk.server, nobodyWaits, false) },
		)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{Name: disk.name, Prototype: disk.prototype, Measures: []measure{
			r.ratio(waitersOnSome, nobodyWaits, (*cell).rate).measure("rate by that without waiters", times, atLeast(0.97)),
		}}, r.describe(waitersOnSome).at(disk.name), r.describe(nobodyWaits).at(disk.name))
	}
	return figures, nil
}

// waitedVariant lets callers own keys, and others wait for some of them if so told.
func waitedVariant(ctx context.Context, on *postgres, name string, waited bool) (*variant, error) {
	db, err := on.database(ctx, pgstore.Migrate)
	if err != nil {
		return nil, err
	}
	p, err := openPair(ctx, db, true)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return &variant{
		name: name, server: on,
		turn: func(ctx context.Context, length time.Duration) (work, error) { return p.turn(ctx, length, waited) },
		check: func(ctx context.Context, operations int) error {
			return db.holds(ctx, operations, "select count(*) from idempotency where state = 2", "select count(*) from idempotency")
		},
		close: func() error { return errors.Join(p.close(ctx), db.drop()) },
	}, nil
}

func (p *pair) turn(ctx context.Context, length time.Duration, waited bool) (work, error) {
	var calls atomic.Int64
	var waiters sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	w, err := callers(waitedCallers, func(ctx context.Context) error {
		key := newKey()
		if calls.Add(1)%100 != 0 {
			return own(ctx, p.owner.guard, key, func() {})
		}
		return own(ctx, p.owner.guard, key, func() {
			if waited {
				waiters.Go(func() {
					if err := await(ctx, p.waiter.guard, key); err != nil {
						mu.Lock()
						defer mu.Unlock()
						failures = append(failures, err)
					}
				})
			}
			time.Sleep(waitedWork)
		})
	})(ctx, length)
	waiters.Wait()
	return w, errors.Join(append(failures, err)...)
}
