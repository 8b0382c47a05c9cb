package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// sweepStretch is how long Guard.RunSweeper sweeps before it looks at the
	// durations of claims. sweepListen is how long it then pauses, to learn
	// their durations without a sweep.
	sweepStretch = time.Second
	sweepListen  = 250 * time.Millisecond
	// quietWindows is the number of latest pauses that count: the load changes.
	quietWindows = 4
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
	s := &sweeper{engine: e, rate: newSweepRate(&e.cfg)}
	defer e.claimWatch.stop()
	e.inRounds(ctx, func(end time.Time) error {
		return errors.Join(s.maintain(ctx), s.sweep(ctx, end))
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
		end := time.Now().Add(jittered(e.cfg.SweepInterval))
		err := round(end)
		if ctx.Err() != nil {
			return // an interruption by ctx does not count as a failure
		}
		if err == nil {
			failures = 0
			sleep(ctx, time.Until(end))
			continue
		}
		e.observe(ctx, Event{Kind: EventSweepError, Err: err})
		sleep(ctx, jittered(min(sweepRetry<<failures, e.cfg.SweepInterval)))
		failures = min(failures+1, 16)
	}
}

// A sweeper is the state of one Guard.RunSweeper.
type sweeper struct {
	engine *Engine
	rate   sweepRate
	quiet  []*claimTimes // windows in which nothing was swept, the latest last
}

func (s *sweeper) maintain(ctx context.Context) error {
	if s.engine.partitions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	return s.engine.partitions.MaintainPartitions(ctx, s.engine.cfg.KeepPartitions)
}

// sweep deletes until nothing is left, or the round is over.
func (s *sweeper) sweep(ctx context.Context, end time.Time) error {
	s.quiet = nil // of another time
	for ctx.Err() == nil && time.Now().Before(end) {
		s.listen(ctx)
		busy := s.engine.claimWatch.open()
		more, err := s.stretch(ctx)
		switch {
		case err != nil:
			s.rate = s.rate.stumbled()
			return err
		case more:
			s.rate = s.rate.after(busy, s.quiet)
		case s.engine.cfg.KeepAnswer == 0:
			return nil
		default:
			sleep(ctx, min(jittered(answerPause), time.Until(end)))
		}
	}
	return nil
}

// listen learns the durations of claims while nothing is swept.
func (s *sweeper) listen(ctx context.Context) {
	s.quiet = append(s.quiet, s.engine.claimWatch.open())
	s.quiet = s.quiet[max(len(s.quiet)-quietWindows, 0):]
	sleep(ctx, jittered(sweepListen))
}

// stretch sweeps for a while. It reports whether there is more to do.
func (s *sweeper) stretch(ctx context.Context) (more bool, err error) {
	for end := time.Now().Add(sweepStretch); ctx.Err() == nil && time.Now().Before(end); {
		began := time.Now()
		n, err := s.batch(ctx)
		took := time.Since(began)
		if n > 0 {
			s.engine.observe(ctx, Event{Kind: EventSwept, Count: n, Duration: took})
		}
		if err != nil || n < s.rate.limit() {
			return false, err
		}
		sleep(ctx, jittered(s.rate.pause(took)))
	}
	return true, nil
}

func (s *sweeper) batch(ctx context.Context) (int, error) {
	return s.engine.store.Sweep(ctx, s.rate.limit())
}

// jittered is d, give or take a quarter. Processes that started together then
// do not stay together.
func jittered(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
