package hosting

import (
	"context"
	"log/slog"
	"time"
)

// sweepEvery is how often expired keys are deleted. Each round deletes in
// bounded batches, so it may be as rare as the table's size allows.
const sweepEvery = time.Minute

// StartSweeping calls each of sweeps from time to time until stop is called, which
// waits for the call that is under way.
func StartSweeping(sweeps ...func(context.Context) (int, error)) (stop func()) {
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
			for _, sweep := range sweeps {
				if n, err := sweep(ctx); err != nil && ctx.Err() == nil {
					slog.Warn("sweep failed", "swept", n, "error", err)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}
