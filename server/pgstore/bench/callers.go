package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// callers makes a turn of so many goroutines that each do one operation after the other, and at
// least one. They finish the operations that they began before the time was up, and the time of
// these counts.
func callers(n int, operation func(context.Context) error) func(context.Context, time.Duration) (work, error) {
	return func(ctx context.Context, length time.Duration) (work, error) {
		waits, errs := make([][]time.Duration, n), make([]error, n)
		var running sync.WaitGroup
		start := time.Now()
		for i := range n {
			running.Go(func() {
				for began := time.Now(); errs[i] == nil && (waits[i] == nil || began.Sub(start) < length); {
					errs[i] = operation(ctx)
					now := time.Now()
					waits[i] = append(waits[i], now.Sub(began))
					began = now
				}
			})
		}
		running.Wait()
		all := slices.Concat(waits...)
		return work{operations: len(all), took: time.Since(start), waits: all}, errors.Join(errs...)
	}
}
