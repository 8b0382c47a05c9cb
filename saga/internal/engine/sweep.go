package engine

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

const (
	// sweepRetry is the first pause of [Engine.RunSweeper] after a failure. Each further
	// failure doubles it, up to the interval.
	sweepRetry = time.Second
	// sweepTimeout ends a batch that hangs. The next batch goes on.
	sweepTimeout = 30 * time.Second
	// sweepRest is how many times as long as a batch the pause after it is, and sweepRestMax
	// the longest pause.
	sweepRest    = 4
	sweepRestMax = time.Second
)

// RunSweeper deletes sagas that are final for longer than Keep, until ctx ends or the engine
// is closed. It rests between batches, so that the writes of sagas hardly feel it.
func (e *Engine) RunSweeper(ctx context.Context) {
	ctx, leave := e.untilClosing(ctx)
	if ctx == nil {
		return
	}
	defer leave()
	for failures := 0; ctx.Err() == nil; {
		end := time.Now().Add(e.jitter(e.cfg.SweepInterval))
		err := e.sweepRound(ctx)
		if ctx.Err() != nil {
			return // what ctx interrupted is not a failure
		}
		if err == nil {
			failures = 0
			pause(ctx, time.Until(end))
			continue
		}
		e.tell(journal.Event{Kind: journal.EventSweepError, Engine: e.current().id, Err: err})
		pause(ctx, e.jitter(min(sweepRetry<<failures, e.cfg.SweepInterval)))
		failures = min(failures+1, 16)
	}
}

// untilClosing returns a ctx that ends with the other one, or when the engine is closed. Close
// waits for leave. The ctx is nil if the engine is closed already.
func (e *Engine) untilClosing(ctx context.Context) (_ context.Context, leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil
	}
	e.work.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-e.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); e.work.Done() }
}

// sweepRound deletes until nothing is left.
func (e *Engine) sweepRound(ctx context.Context) error {
	for {
		begun := time.Now()
		n, err := e.sweepBatch(ctx)
		took := time.Since(begun)
		if n > 0 {
			e.tell(journal.Event{Kind: journal.EventSwept, Engine: e.current().id, Count: n, Elapsed: took})
		}
		if err != nil || n < e.cfg.SweepBatch || !pause(ctx, min(sweepRest*took, sweepRestMax)) {
			return err
		}
	}
}

func (e *Engine) sweepBatch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return e.journal.Sweep(ctx, e.cfg.SweepBatch)
}

// jitter returns d, give or take a quarter, so that processes which started together do not stay
// together.
func (e *Engine) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(float64(d/2)*min(max(e.cfg.Rand(), 0), 1))
}
