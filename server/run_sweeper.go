package server

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// sweepStretch is how long [Guard.RunSweeper] sweeps before it looks what that
	// did to claims, and sweepListen how long it then lets them be, to see what
	// they take without it.
	sweepStretch = time.Second
	sweepListen  = 250 * time.Millisecond
	// quietWindows is how many of the latter it goes by: the load changes.
	quietWindows = 4
	// answerPause is the longest rest where answers go before their records:
	// a batch says how many records it deleted, not how many answers wait.
	answerPause = time.Second
	// maintainTimeout ends a maintenance that hangs: the next goes on.
	maintainTimeout = time.Minute
	// sweepRetry is the first pause after a failure; each further one doubles it.
	sweepRetry = time.Second
)

// A PartitionStore is a [Store] that keeps answers in partitions by time, some of
// which have to be there before they are needed: [Guard.RunSweeper] calls it.
type PartitionStore interface {
	Store
	// MaintainPartitions makes the partitions that new answers need which are
	// kept for keep, and drops those that nobody needs. It does nothing where
	// answers are not partitioned, and leaves to the next call what it cannot
	// do without waiting for others.
	MaintainPartitions(ctx context.Context, keep time.Duration) error
}

// RunSweeper does all that retention needs until ctx ends or [Guard.Shutdown] is
// called, which then waits for it: it deletes what nobody can need any more, drops
// answers past BodyRetention, maintains the partitions of a [PartitionStore], and
// calls [Guard.Reconcile].
//
// It begins a round about every [Config.SweepInterval], and sweeps in batches of at
// most [Config.SweepBatch], with pauses, until nothing is left. Batches get smaller
// and pauses longer while this guard's claims take longer beside them than without
// them, and the other way round, within [Config.MinSweepPause] and
// [Config.MaxSweepPause]; but twice as many records go as claims come, so that it
// does not fall behind. So run it where requests are served: a process without
// any has nobody who could feel a sweep, and goes at full speed.
//
// What fails is an [EventSweepError], is logged, and is tried again, ever more rarely
// but about once a round at the least. One sweeper for a store is enough; in
// several processes, or twice in one, they share the work.
func (g *Guard) RunSweeper(ctx context.Context) {
	if !g.gate.enter() {
		return
	}
	defer g.gate.leave()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := g.gate.untilClosing(ctx)
	defer stop()
	// Beside the sweep: a service that is asked about a run may take its time.
	wg.Go(func() {
		g.inRounds(ctx, func(time.Time) error {
			_, err := g.Reconcile(ctx)
			return err
		})
	})
	s := &sweeper{guard: g, pace: newPace(&g.cfg)}
	defer g.claimWatch.stop()
	g.inRounds(ctx, func(end time.Time) error {
		return errors.Join(s.maintain(ctx), s.sweep(ctx, end))
	})
}

// inRounds calls round with the time when its next call is due, until ctx ends.
func (g *Guard) inRounds(ctx context.Context, round func(end time.Time) error) {
	for failures := 0; ctx.Err() == nil; {
		end := time.Now().Add(jittered(g.cfg.SweepInterval))
		err := round(end)
		if ctx.Err() != nil {
			return // what ctx interrupted is no failure
		}
		if err == nil {
			failures = 0
			sleep(ctx, time.Until(end))
			continue
		}
		g.observe(Event{Kind: EventSweepError, Err: err})
		g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.Any("error", err))
		sleep(ctx, jittered(min(sweepRetry<<failures, g.cfg.SweepInterval)))
		failures = min(failures+1, 16)
	}
}

// A sweeper is the state of one [Guard.RunSweeper].
type sweeper struct {
	guard *Guard
	pace  pace
	quiet []*claimTimes // windows in which nothing was swept, the latest last
}

func (s *sweeper) maintain(ctx context.Context) error {
	if s.guard.partitions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	return s.guard.partitions.MaintainPartitions(ctx, s.guard.cfg.keepAnswers())
}

// sweep deletes until nothing is left, or the round is over.
func (s *sweeper) sweep(ctx context.Context, end time.Time) error {
	s.quiet = nil // of another time
	for ctx.Err() == nil && time.Now().Before(end) {
		s.listen(ctx)
		busy := s.guard.claimWatch.open()
		more, err := s.stretch(ctx)
		switch {
		case err != nil:
			s.pace = s.pace.stumbled()
			return err
		case more:
			s.pace = s.pace.after(busy, s.quiet)
		case s.guard.cfg.BodyRetention == 0:
			return nil
		default:
			sleep(ctx, min(jittered(answerPause), time.Until(end)))
		}
	}
	return nil
}

// listen learns what claims take while nothing is swept.
func (s *sweeper) listen(ctx context.Context) {
	s.quiet = append(s.quiet, s.guard.claimWatch.open())
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
			s.guard.observe(Event{Kind: EventSwept, Count: n, Duration: took})
		}
		if err != nil || n < s.pace.limit() {
			return false, err
		}
		sleep(ctx, jittered(s.pace.pause(took)))
	}
	return true, nil
}

func (s *sweeper) batch(ctx context.Context) (int, error) {
	return s.guard.store.Sweep(ctx, s.pace.limit())
}

// jittered is d give or take a quarter, so that processes which started together
// do not stay together.
func jittered(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
