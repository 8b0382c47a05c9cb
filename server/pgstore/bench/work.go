package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server"
)

const (
	workers  = 256
	workTime = 20 * time.Millisecond
)

var work20ms = bench{
	name: "work20ms", title: "handlers of 20 ms, 256 callers, 32 connections",
	conditions: "Each handler of a Keyed task waits 20 ms, so that 12,800 a second would be all that 256 callers can have; of that the part that they have while all of them call, by the mean time of a call. How long handlers took is by their own clock. The connections are counted while all 256 are in their handlers.",
	measure:    measureWork,
}

func measureWork(ctx context.Context, l *lab, e effort) (_ []figure, err error) {
	db, err := l.database(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	g, err := openGuard(ctx, db, guardOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	h := &handlers{guarded: g}
	guarded := variant{
		name: ours, server: db.server, turn: callers(workers, h.work),
		check: func(ctx context.Context, operations int) error {
			return db.holds(ctx, operations, "select count(*) from idempotency where state = 2", "select count(*) from idempotency")
		},
		close: func() error { return nil },
	}
	r, err := contest(ctx, e, &guarded)
	if err != nil {
		return nil, err
	}
	took := inMilliseconds(time.Duration(h.took.Load())) / float64(max(1, h.ran.Load()))
	busy, err := l.profiler.profile(ctx, e, "work20ms", func() (*variant, error) { return &guarded, nil })
	if err != nil {
		return nil, err
	}
	held, err := g.held(ctx)
	if err != nil {
		return nil, err
	}
	ceiling := workers / workTime.Seconds()
	return slices.Concat([]figure{
		{Name: "work20ms", Prototype: "82 %", Measures: []measure{
			r.spread(ours, func(c *cell) float64 { return 100 * c.steady(workers) / ceiling }).Measure("of 256/20 ms", percent, benchkit.AtLeast(85)),
			number("handlers took", took, milliseconds, nil),
			number("connections held", float64(held), "", benchkit.AtMost(0)),
		}},
	}, busy, []figure{r.describe(ours)}), nil
}

// handlers of a guard take a while each.
type handlers struct {
	*guarded

	took, ran atomic.Int64 // by their own clock, in nanoseconds, and how many
}

func (h *handlers) work(ctx context.Context) error {
	_, replayed, err := server.Do(ctx, h.guard, task(server.Keyed), newKey(), 1, func(context.Context, int) (string, error) {
		start := time.Now()
		time.Sleep(workTime)
		h.took.Add(int64(time.Since(start)))
		h.ran.Add(1)
		return string(answer), nil
	})
	if err == nil && replayed {
		err = errNotFirst
	}
	return err
}

// held returns how many connections are taken from the pool while as many handlers
// run as there are callers, and nothing else does.
func (g *guarded) held(ctx context.Context) (int, error) {
	var arrived, ended sync.WaitGroup
	leave := make(chan struct{})
	errs := make([]error, workers)
	arrived.Add(workers)
	for i := range workers {
		ended.Go(func() {
			var once sync.Once
			_, _, errs[i] = server.Do(ctx, g.guard, task(server.Keyed), newKey(), 1, func(context.Context, int) (int, error) {
				once.Do(arrived.Done)
				<-leave
				return 1, nil
			})
			once.Do(arrived.Done) // one that never ran must not be waited for
		})
	}
	arrived.Wait()
	taken := workers
	for range 10 { // who has just been answered may not have given its own back yet
		taken = min(taken, int(g.pool.Stat().AcquiredConns()))
		time.Sleep(time.Millisecond)
	}
	close(leave)
	ended.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("connections held: %w", err)
	}
	return taken, nil
}
