package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

// payments keeps a payment service alive, and kills it.
type payments struct {
	start  func(context.Context) (victim, error)
	victim victim
	edge   *faultnet.Edge
	seed   uint64
	kills  atomic.Int64
}

// startPayments starts the first payment service behind edge: a process over
// the database at url, or, without one, a part of this process over storage.
func startPayments(ctx context.Context, url string, storage *node.Storage, edge *faultnet.Edge, opts options) (*payments, error) {
	p := &payments{edge: edge, seed: opts.seed}
	p.start = func(ctx context.Context) (victim, error) {
		if url == "" {
			return startRoommate(storage)
		}
		return startChild(ctx, paymentConfig{Database: url, Unsafe: opts.unsafe})
	}
	return p, p.replace(ctx)
}

func (p *payments) replace(ctx context.Context) (err error) {
	if p.victim, err = p.start(ctx); err != nil {
		return err
	}
	p.edge.Forward(p.victim.Addr())
	return nil
}

// killSometimes kills the service the given number of times, spread over the
// run of n checkouts, each time while it is working, and starts it again. It
// returns when it is done or stop is closed.
func (p *payments) killSometimes(ctx context.Context, kills, n int, accepted func() int64, stop <-chan struct{}) error {
	rng := rand.New(rand.NewPCG(p.seed, 0))
	for i := range kills {
		due := int64(n * (i + 1) / (kills + 1))
		if !await(ctx, stop, func() bool { return accepted() >= due && p.edge.InFlight() > 0 }) {
			return ctx.Err()
		}
		// Somewhere between the arrival of a request and its answer.
		time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
		p.kills.Add(1)
		if err := errors.Join(p.victim.kill(ctx), p.replace(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// stop stops the service. Killing must be over.
func (p *payments) stop(ctx context.Context) error {
	if p.victim == nil {
		return nil
	}
	return p.victim.Stop(ctx)
}

// await polls until condition is true; false if ctx or stop end first.
func await(ctx context.Context, stop <-chan struct{}, condition func() bool) bool {
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		case <-tick.C:
		}
	}
	return true
}
