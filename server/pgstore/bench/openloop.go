package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// openLoop starts so many operations a second, whether or not those before have
// ended, until stop is closed. It returns how long each took from when it was due: a
// server that stands still delays all that were due meanwhile, not one.
func openLoop(ctx context.Context, perSecond int, stop <-chan struct{}, operation func(context.Context) error) ([]time.Duration, error) {
	var mu sync.Mutex
	var waits []time.Duration
	var failed int
	var first error
	var running sync.WaitGroup
	start := time.Now()
	for n := 0; ; n++ {
		due := start.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
		select {
		case <-stop:
			running.Wait()
			if failed > 0 {
				first = fmt.Errorf("bench: %d of %d operations failed, the first: %w", failed, len(waits), first)
			}
			return slices.Clip(waits), first
		case <-time.After(time.Until(due)):
		}
		running.Go(func() {
			err := operation(ctx)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			waits = append(waits, took)
			if err != nil {
				failed++
				first = cmp.Or(first, err)
			}
		})
	}
}
