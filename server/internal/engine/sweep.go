package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

const (
	// batchPause is the shortest rest after a full batch.
	batchPause = 5 * time.Millisecond
	// answerPause is the longest rest if answers are deleted before their
	// records. A batch reports how many records it deleted, not how many
	// answers wait.
	answerPause = time.Second
	// maintainTimeout ends a maintenance that hangs: the next goes on.
	maintainTimeout = time.Minute
	// sweepRetry is the first pause after a failure; each further one doubles it.
	sweepRetry = time.Second
)

// RunSweeper deletes expired records, maintains partitions and reconciles, until ctx ends or the engine drains.
// Package server says more.
func (e *Engine) RunSweeper(ctx context.Context) {
	if !e.drain.enter() {
		return
	}
	defer e.drain.leave()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := e.drain.untilClosing(ctx)
	defer stop()
	// Reconciling runs beside the sweep: a service that is asked about a run may answer slowly.
	wg.Go(func() {
		e.inRounds(ctx, func(time.Time) error {
			_, err := e.Reconcile(ctx)
			return err
		})
	})
	e.inRounds(ctx, func(end time.Time) error {
		return errors.Join(e.maintain(ctx), e.sweep(ctx, end))
	})
}

// Sweep deletes in batches until a batch is not full, and then reconciles once. It returns
// how many records it deleted, also with an error.
func (e *Engine) Sweep(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := e.store.Sweep(ctx, e.cfg.SweepBatch)
		total += n
		if err != nil {
			return total, err
		}
		if err := ctx.Err(); err != nil {
			return total, err
		}
		if n < e.cfg.SweepBatch {
			_, err := e.Reconcile(ctx)
			return total, err
		}
	}
}

// inRounds calls round with the time when its next call is due, until ctx ends.
func (e *Engine) inRounds(ctx context.Context, round func(end time.Time) error) {
	for failures := 0; ctx.Err() == nil; {
		end := time.Now().Add(jitter(e.cfg.SweepInterval))
		err := round(end)
		if ctx.Err() != nil {
			return // an interruption by ctx does not count as a failure
		}
		if err == nil {
			failures = 0
			sleep(ctx, time.Until(end))
			continue
		}
		e.observe(ctx, store.Event{Kind: store.EventSweepError, Err: err})
		sleep(ctx, jitter(min(sweepRetry<<failures, e.cfg.SweepInterval)))
		failures = min(failures+1, 16)
	}
}

func (e *Engine) maintain(ctx context.Context) error {
	if e.partitions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	return e.partitions.MaintainPartitions(ctx, e.cfg.KeepPartitions)
}

// sweep deletes until nothing is left, or the round is over. It rests for at least as long as each
// batch took: it takes at most half of a server that is slow for any reason.
func (e *Engine) sweep(ctx context.Context, end time.Time) error {
	for ctx.Err() == nil && time.Now().Before(end) {
		began := time.Now()
		n, err := e.store.Sweep(ctx, e.cfg.SweepBatch)
		took := time.Since(began)
		if n > 0 {
			e.observe(ctx, store.Event{Kind: store.EventSwept, Count: n, Duration: took})
		}
		switch {
		case err != nil:
			return err
		case n == e.cfg.SweepBatch:
			sleep(ctx, jitter(max(took, batchPause)))
		case e.cfg.KeepAnswer == 0:
			return nil
		default:
			sleep(ctx, min(jitter(answerPause), time.Until(end)))
		}
	}
	return nil
}

// jitter returns d, give or take a quarter. Processes that started together then
// do not stay together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
