package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
	"github.com/fanonce/fanonce/server"
)

var sweep = bench{
	name: "sweep", title: "sweep of expired rows under load",
	conditions: "Claims and completions come in an open loop, and are timed from when they were due. Each pair of rounds begins with a table filled anew: first nobody sweeps, then Guard.RunSweeper does, in the process that has the callers, until all expired rows are gone, and then nobody does again. The p99 without is that of both rounds in which nobody does.",
	measure:    measureSweep,
}

func measureSweep(ctx context.Context, l *lab, e effort) ([]figure, error) {
	on, err := l.postgres(ctx)
	if err != nil {
		return nil, err
	}
	var ratios, baseline, swept, seconds []float64
	for range e.sweepPairs {
		p, err := sweepPair(ctx, on, e)
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, float64(p.swept)/float64(p.baseline))
		baseline = append(baseline, inMilliseconds(p.baseline))
		swept = append(swept, inMilliseconds(p.swept))
		seconds = append(seconds, p.took.Seconds())
	}
	return []figure{{Name: "sweep", Prototype: "within noise at 150 k", Measures: []measure{
		spreadOf(ratios).Measure(fmt.Sprintf("p99 with a sweep of %d rows by that without", e.sweepRows), times, benchkit.AtMost(1.25)),
		spreadOf(baseline).Measure("p99 without", milliseconds, nil),
		spreadOf(swept).Measure("p99 with", milliseconds, nil),
		spreadOf(seconds).Measure("the sweep took", "s", nil),
	}}}, nil
}

// A pairOfRounds has the p99 without a sweep and with one, and how long the sweep was.
type pairOfRounds struct{ baseline, swept, took time.Duration }

func sweepPair(ctx context.Context, on *postgres, e effort) (p pairOfRounds, err error) {
	db, err := fillDatabase(ctx, on, e.sweepRows, "-1 hour")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	progress := &sweepProgress{left: int64(e.sweepRows), done: make(chan struct{})}
	g, err := openGuard(ctx, db, guardOptions{guard: server.Config{Observer: progress}})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	// By the guard: it is its claims that tell the sweeper to slow down.
	foreground := func(ctx context.Context) error {
		_, _, err := server.Do(ctx, g.guard, task(server.Keyed), newKey(), 1, func(context.Context, int) (int, error) { return 1, nil })
		return err
	}
	// Connections are open, plans are made.
	if _, err := callers(16, foreground)(ctx, e.slice); err != nil {
		return p, err
	}
	undisturbed := func() error {
		select {
		case <-time.After(e.sweepLength):
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	}
	before, err := during(ctx, e, foreground, undisturbed)
	if err != nil {
		return p, err
	}
	start := time.Now()
	swept, err := during(ctx, e, foreground, func() error { return g.sweepUntil(ctx, progress.done) })
	p.swept, p.took = percentile(swept, 0.99), time.Since(start)
	if err != nil {
		return p, err
	}
	// The machine's speed drifts by the minute, which is how long a sweep is.
	after, err := during(ctx, e, foreground, undisturbed)
	if err != nil {
		return p, err
	}
	p.baseline = percentile(slices.Concat(before, after), 0.99)
	return p, db.holds(ctx, 0, expired)
}

// expired finds out by the index whether there is a row that a sweep should take.
const expired = "select exists (select from idempotency where expires_at < now())::int"

// A sweepProgress observes a guard until it has swept so many records. It cannot ask the table
// instead: until a vacuum has come each question passes over all rows that were deleted before, and
// disturbs requests more than the sweep.
type sweepProgress struct {
	left int64 // the sweeper's
	done chan struct{}
}

func (s *sweepProgress) Observe(_ context.Context, e server.Event) {
	if e.Kind != server.EventSwept {
		return
	}
	before := s.left
	if s.left -= int64(e.Count); before > 0 && s.left <= 0 {
		close(s.done)
	}
}

// sweepUntil runs the sweeper until done is closed.
func (g *guarded) sweepUntil(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { g.guard.RunSweeper(ctx) })
	defer running.Wait()
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// during returns the waits of the foreground while something else is done.
func during(ctx context.Context, e effort, foreground func(context.Context) error, do func() error) ([]time.Duration, error) {
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- do()
		close(stop)
	}()
	waits, err := openLoop(ctx, e.sweepRate, stop, foreground)
	return waits, errors.Join(err, <-done)
}
