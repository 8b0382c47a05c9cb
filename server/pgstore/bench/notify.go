package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

const (
	waitersOnSome = "waiters on 1 % of the keys, notified"
	waitersPoll   = "the same waiters, without notifications"
	nobodyWaits   = "nobody waits"
	waitedCallers = 64
	// waitedEvery is of how many keys one is waited for.
	waitedEvery = 100
	// waitedWork gives a waiter the time to come, and to be noted on the record, before the
	// completion. The poller notes it at the earliest 5 ms after it began to wait, and the waiter's
	// claim competes with the claims of 64 callers.
	waitedWork = 50 * time.Millisecond
	// fewestNoted is the least share of the awaited keys that must have been noted: a completion
	// sends no notification for other keys.
	fewestNoted = 0.8
)

var notify = bench{
	name: "notify", title: "what notifications cost everybody else, 64 callers",
	conditions: "Every hundredth key's handler takes 50 ms, in all variants. In two of them a caller of another guard with a pool of its own, as another process has them, waits for each of those: in one it listens, so that completions notify it, and in the other it polls. Noted are the records whose completion notifies, by the table.",
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
		var noted float64
		r, err := match(ctx, e,
			func() (*variant, error) { return notifiedVariant(ctx, disk.server, &noted) },
			func() (*variant, error) { return waitedVariant(ctx, disk.server, waitersPoll, true) },
			func() (*variant, error) { return waitedVariant(ctx, disk.server, nobodyWaits, false) },
		)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{Name: disk.name, Prototype: disk.prototype, Measures: []measure{
			r.ratio(waitersOnSome, waitersPoll, (*cell).rate).Measure("rate by that without notifications", times, benchkit.AtLeast(0.97)),
			r.ratio(waitersOnSome, nobodyWaits, (*cell).rate).Measure("by that without waiters", times, nil),
			number("keys noted", noted, percent, nil),
		}}, r.describe(waitersOnSome).At(disk.name), r.describe(waitersPoll).At(disk.name), r.describe(nobodyWaits).At(disk.name))
	}
	return figures, nil
}

// openWaited makes the keys on a database of their own, with waiters who listen if so
// told, and else poll.
func openWaited(ctx context.Context, on *postgres, listen bool) (*waitedKeys, error) {
	db, err := on.database(ctx, migrateStore)
	if err != nil {
		return nil, err
	}
	p, err := openPair(ctx, db, listen)
	if err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return &waitedKeys{pair: p, database: db, work: waitedWork}, nil
}

// waitedVariant lets callers own keys, and if so told others wait for some of them, who
// poll.
func waitedVariant(ctx context.Context, on *postgres, name string, waited bool) (*variant, error) {
	w, err := openWaited(ctx, on, false)
	if err != nil {
		return nil, err
	}
	w.waited = waited
	return w.variant(ctx, name, on), nil
}

// notifiedVariant is waitedVariant with waiters who listen. It sets noted to the
// percentage of the records that say so.
func notifiedVariant(ctx context.Context, on *postgres, noted *float64) (*variant, error) {
	w, err := openWaited(ctx, on, true)
	if err != nil {
		return nil, err
	}
	w.waited = true
	v := w.variant(ctx, waitersOnSome, on)
	if err := w.listen(ctx); err != nil {
		return nil, errors.Join(err, v.close())
	}
	all := v.check
	v.check = func(ctx context.Context, operations int) error {
		if err := all(ctx, operations); err != nil {
			return err
		}
		*noted, err = w.countNoted(ctx, operations)
		return err
	}
	return v, nil
}

// waitedKeys are keys of which every hundredth takes a while, and is waited for if so told.
type waitedKeys struct {
	*pair

	database *database
	waited   bool
	work     time.Duration // of the handler of each of those
	calls    atomic.Int64  // of all turns
}

func (w *waitedKeys) variant(ctx context.Context, name string, on *postgres) *variant {
	return &variant{
		name: name, server: on, turn: w.turn,
		check: func(ctx context.Context, operations int) error {
			return w.database.holds(ctx, operations, "select count(*) from idempotency where state = 2", "select count(*) from idempotency")
		},
		close: func() error { return errors.Join(w.close(ctx), w.database.drop()) },
	}
}

// listen returns when the waiters' store listens, which it begins to with its first
// waiter: until then nothing is noted.
func (w *waitedKeys) listen(ctx context.Context) error {
	key := newKey()
	waiter := make(chan error, 1)
	err := runOwn(ctx, w.owner.guard, key, func() {
		go func() { waiter <- await(ctx, w.waiter.guard, key) }()
		for end := time.Now().Add(time.Minute); !w.waiter.store.Listening() && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
	})
	if err != nil {
		return err
	}
	return errors.Join(<-waiter, script("delete from idempotency")(ctx, w.database.look))
}

// countNoted returns on which percentage of the records it is noted that somebody waits. It
// is an error if that is not nearly one.
func (w *waitedKeys) countNoted(ctx context.Context, operations int) (float64, error) {
	n, err := w.database.count(ctx, "select count(*) from idempotency where waiters")
	if err != nil {
		return 0, err
	}
	if most := operations / waitedEvery; n > most || n < int(fewestNoted*float64(most)) {
		return 0, fmt.Errorf("of %d records that were waited for %d are noted", most, n)
	}
	return 100 * float64(n) / float64(operations), nil
}

func (w *waitedKeys) turn(ctx context.Context, length time.Duration) (work, error) {
	var waiters sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	done, err := callers(waitedCallers, func(ctx context.Context) error {
		key := newKey()
		if w.calls.Add(1)%waitedEvery != 0 {
			return runOwn(ctx, w.owner.guard, key, func() {})
		}
		return runOwn(ctx, w.owner.guard, key, func() {
			if w.waited {
				waiters.Go(func() {
					if err := await(ctx, w.waiter.guard, key); err != nil {
						mu.Lock()
						defer mu.Unlock()
						failures = append(failures, err)
					}
				})
			}
			time.Sleep(w.work)
		})
	})(ctx, length)
	waiters.Wait()
	return done, errors.Join(append(failures, err)...)
}
