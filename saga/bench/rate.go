package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func rateConditions(e effort) string {
	return fmt.Sprintf("All engines at once on one server, taking turns: in each of %d rounds every one of them has %v for as many callers as said, each of which"+
		" runs one saga after the other and waits for its result. Medians of the rounds, and their range; CPU is processor time of one saga,"+
		" in this process and in the server's that serve it; \"by DBOS\" is the rate in parts of DBOS' in the same round. %d connections for each.", e.rounds, e.turn, connections)
}

// A lap is how one contender did in one round.
type lap struct {
	rate float64       // sagas a second
	wait time.Duration // the median of a caller's
	// Processor time of one saga.
	client, server time.Duration
	// From the call of Send to the next step: of half of the sagas, and of 99 %. Zero without a signal.
	delay, longDelay time.Duration
}

func measureRates(ctx context.Context, c *cluster, e effort, contenders []contender) (figures []figure, err error) {
	var entrants []*entrant
	defer func() {
		for _, each := range entrants {
			err = errors.Join(err, end(ctx, each))
		}
	}()
	for _, contender := range contenders {
		each, err := contender.start(ctx, c)
		if err != nil {
			return nil, err
		}
		entrants = append(entrants, each)
	}
	for _, callers := range e.callers {
		laps, err := contest(ctx, e, callers, entrants)
		if err != nil {
			return nil, err
		}
		figures = append(figures, rateFigures(entrants, laps, callers)...)
	}
	return figures, nil
}

func rateFigures(entrants []*entrant, laps map[string][]lap, callers int) []figure {
	var figures []figure
	others := laps[dbosSteps.name]
	for _, each := range entrants {
		mine := laps[each.name]
		f := figure{Name: fmt.Sprintf("%s, callers: %d", each.name, callers), Measures: []measure{
			spreadOf(mine, lap.perSecond).Measure("rate", "/s", nil),
			spreadOf(mine, lap.waiting).Measure("wait", "ms", nil),
			spreadOf(mine, lap.clientCPU).Measure("CPU here", "ms", nil),
			spreadOf(mine, lap.serverCPU).Measure("CPU of the server", "ms", nil),
		}}
		if each.name != dbosSteps.name {
			parts := ratios(mine, others, lap.perSecond)
			f.Measures = append(f.Measures, parts.Measure("by DBOS", "x", each.rates[callers]))
		}
		if _, ok := each.engine.(*signalEngine); ok {
			f.Measures = append(f.Measures,
				spreadOf(mine, lap.delayed).Measure("signal, half", "ms", nil), spreadOf(mine, lap.longDelayed).Measure("signal, 99 %", "ms", nil))
		}
		figures = append(figures, f)
	}
	return figures
}

func (l lap) perSecond() float64 { return l.rate }
func (l lap) waiting() float64   { return inMilliseconds(l.wait) }
func (l lap) clientCPU() float64 { return inMilliseconds(l.client) }
func (l lap) serverCPU() float64 { return inMilliseconds(l.server) }

func (l lap) delayed() float64     { return inMilliseconds(l.delay) }
func (l lap) longDelayed() float64 { return inMilliseconds(l.longDelay) }

// contest lets the entrants take turns, each once in every round. So other work of the machine
// slows all of them alike. A ratio within a round is therefore more exact than a ratio of two
// long runs. A first round warms them up and does not count.
func contest(ctx context.Context, e effort, callers int, entrants []*entrant) (map[string][]lap, error) {
	laps := make(map[string][]lap, len(entrants))
	for round := -1; round < e.rounds; round++ {
		for turns := range entrants {
			each := entrants[(turns+round+1)%len(entrants)] // each entrant comes first in turn
			l, err := turn(ctx, each, callers, e.turn)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", each.name, err)
			}
			if round >= 0 {
				laps[each.name] = append(laps[each.name], l)
			}
		}
	}
	return laps, nil
}

// turn lets the given number of callers run sagas until the time is up, and at least one each.
// The callers finish the sagas that they began, and this time counts.
func turn(ctx context.Context, e *entrant, callers int, length time.Duration) (lap, error) {
	waits, errs := make([][]time.Duration, callers), make([]error, callers)
	before, err := e.used(ctx)
	if err != nil {
		return lap{}, err
	}
	var running sync.WaitGroup
	start := time.Now()
	for i := range callers {
		running.Go(func() {
			for n := 0; errs[i] == nil && (n == 0 || time.Since(start) < length); n++ {
				began := time.Now()
				errs[i] = runOnce(ctx, e, n)
				waits[i] = append(waits[i], time.Since(began))
			}
		})
	}
	running.Wait()
	took := time.Since(start)
	after, err := e.used(ctx)
	all := slices.Concat(waits...)
	n := time.Duration(len(all))
	l := lap{
		rate: float64(n) / took.Seconds(), wait: benchkit.Percentile(all, 0.5),
		client: (after.client - before.client) / n, server: (after.server - before.server) / n,
	}
	if s, ok := e.engine.(*signalEngine); ok {
		delays := s.takeDelays()
		l.delay, l.longDelay = benchkit.Percentile(delays, 0.5), benchkit.Percentile(delays, 0.99)
	}
	return l, errors.Join(errors.Join(errs...), err)
}
