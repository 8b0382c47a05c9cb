package engine

import (
	"context"
	"time"
)

const (
	// sweepRetry is the first pause of [Engine.RunSweeper] after a failure. Each further
	// failure doubles it, up to the interval.
	sweepRetry = time.Second
	// sweepTimeout ends a batch that hangs. The next batch goes on.
	sweepTimeout = 30 * time.Second
	// sweepQuick is how long a batch may take. A slower one halves the size of the next
	// one: a long statement delays the writes of sagas more than several short ones.
	sweepQuick = 50 * time.Millisecond
	// sweepRest is how many times as long as a batch the pause after it is, and sweepRestMax
	// the longest pause.
	sweepRest    = 4
	sweepRestMax = time.Second
	// sweepLeast is the smallest batch that slowness leads to.
	sweepLeast = 10
)

// RunSweeper deletes sagas that are final for longer than Keep, until ctx ends or the engine
// is closed. It rests between batches, so that the writes of sagas hardly feel it.
func (e *Engine) RunSweeper(ctx context.Context) {
	ctx, leave := e.untilClosing(ctx)
	if ctx == nil {
		return
	}
	defer leave()
	batch := e.cfg.SweepBatch
	for failures := 0; ctx.Err() == nil; {
		end := time.Now().Add(e.jittered(e.cfg.SweepInterval))
		var err error
		batch, err = e.sweepRound(ctx, batch)
		if ctx.Err() != nil {
			return // what ctx interrupted is not a failure
		}
		if err == nil {
			failures = 0
			pause(ctx, time.Until(end))
			continue
		}
		e.tell(Event{Kind: EventSweepError, Engine: e.current().id, Err: err})
		pause(ctx, e.jittered(min(sweepRetry<<failures, e.cfg.SweepInterval)))
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

// sweepRound deletes until nothing is left. It returns the size of the next round's first batch.
func (e *Engine) sweepRound(ctx context.Context, batch int) (int, error) {
	for {
		begun := time.Now()
		n, err := e.sweepBatch(ctx, batch)
		took := time.Since(begun)
		if n > 0 {
			e.tell(Event{Kind: EventSwept, Engine: e.current().id, Count: n, Elapsed: took})
		}
		asked := batch
		batch = e.nextBatch(batch, took)
		if err != nil || n < asked {
			return batch, err
		}
		if !pause(ctx, min(sweepRest*took, sweepRestMax)) {
			return batch, nil
		}
	}
}

func (e *Engine) sweepBatch(ctx context.Context, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return e.journal.Sweep(ctx, limit)
}

// nextBatch returns how large a batch may be after one of that size which took so long.
func (e *Engine) nextBatch(batch int, took time.Duration) int {
	if took > sweepQuick {
		return max(batch/2, min(sweepLeast, e.cfg.SweepBatch))
	}
	return min(batch+max(batch/4, 1), e.cfg.SweepBatch)
}

// jittered is d give or take a quarter, so that processes which started together do not stay
// together.
func (e *Engine) jittered(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(float64(d/2)*min(max(e.cfg.Rand(), 0), 1))
}
