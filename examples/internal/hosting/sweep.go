package hosting

import (
	"context"
	"log/slog"
	"time"
)

// sweepEvery is how often sweep is called.
const sweepEvery = time.Minute

// StartSweeping calls sweep from time to time until stop is called, which waits for
// the call that is under way. A guard sweeps by itself.
func StartSweeping(sweep func(context.Context) (int, error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(sweepEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if n, err := sweep(ctx); err != nil && ctx.Err() == nil {
				slog.Warn("sweep failed", "swept", n, "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}
