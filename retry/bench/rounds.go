package main

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/fanonce/fanonce/internal/benchkit"
)

// An operation is one thing that contenders do alike, to be compared by time
// and allocations.
type operation struct {
	name string
	do   func() error
}

// A series is what one operation took, round by round.
type series struct {
	nanoseconds []float64 // per operation
	allocations []float64
}

// contest lets the operations take turns, each once in every round. Other work of the
// machine then slows all of them alike, so a ratio within a round says more than a ratio of
// two long runs. A turn takes about the same time for a quick operation and a slow one, so
// that both are interrupted equally often. It runs in so many goroutines at once.
func contest(rounds int, length time.Duration, goroutines int, operations []operation) (map[string]*series, error) {
	all := make(map[string]*series, len(operations))
	counts := make([]int, len(operations))
	for i, op := range operations {
		n, err := countFor(length, goroutines, op.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
		all[op.name], counts[i] = &series{}, n
	}
	for round := range rounds {
		for turns := range operations {
			i := (turns + round) % len(operations) // nobody always comes first
			ns, allocs, err := turn(counts[i], goroutines, operations[i].do)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", operations[i].name, err)
			}
			s := all[operations[i].name]
			s.nanoseconds, s.allocations = append(s.nanoseconds, ns), append(s.allocations, allocs)
		}
	}
	return all, nil
}

// countFor returns how many operations make a turn of that length. Finding out
// warms them up.
func countFor(length time.Duration, goroutines int, do func() error) (int, error) {
	for n := 16; ; n *= 2 {
		ns, _, err := turn(n, goroutines, do)
		if err != nil {
			return 0, err
		}
		if took := time.Duration(ns * float64(n)); took >= length/4 {
			return int(float64(length)/ns) + 1, nil
		}
	}
}

// turn returns what one operation took on average, of n in each goroutine.
func turn(n, goroutines int, do func() error) (nanoseconds, allocations float64, err error) {
	runtime.GC() // the garbage of the one before
	var before, after runtime.MemStats
	errs := make([]error, goroutines)
	runtime.ReadMemStats(&before)
	start := time.Now()
	if goroutines == 1 {
		errs[0] = repeat(n, do)
	} else {
		var running sync.WaitGroup
		for i := range goroutines {
			running.Go(func() { errs[i] = repeat(n, do) })
		}
		running.Wait()
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	// Rounded: the runtime allocates a little of its own.
	allocations = math.Round(float64(after.Mallocs-before.Mallocs) / float64(n*goroutines))
	return float64(took.Nanoseconds()) / float64(n), allocations, errors.Join(errs...)
}

func repeat(n int, do func() error) error {
	for range n {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func (s *series) time() spread    { return spreadOf(s.nanoseconds) }
func (s *series) allocs() float64 { return spreadOf(s.allocations).Median }

// ratio is the time of s in parts of other's, round by round.
func (s *series) ratio(other *series) spread {
	parts := make([]float64, len(s.nanoseconds))
	for i := range parts {
		parts[i] = s.nanoseconds[i] / other.nanoseconds[i]
	}
	return spreadOf(parts)
}

// times are the measures of s beside other, whose name is what. The goal is of the
// middle of the rounds' ratios: two turns of one round have the machine's speed in
// common, which the least turns of many rounds need not have.
func (s *series) times(what string, other *series, goal *goal) []measure {
	return []measure{
		s.ratio(other).Measure("time by "+what, "x", goal),
		{Name: "least time by " + what, Value: s.time().Low / other.time().Low, Unit: "x"},
	}
}

// percentile returns the value that the given part of the durations, in [0, 1], does not exceed, in
// milliseconds; 0 if there are none.
func percentile(durations []time.Duration, part float64) float64 {
	return inMilliseconds(benchkit.Percentile(durations, part))
}
