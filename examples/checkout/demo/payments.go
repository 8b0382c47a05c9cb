package demo

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

// payments keeps a payment service alive, and kills it.
type payments struct {
	start  func(context.Context) (victim, error)
	victim victim
	edge   *faultnet.Edge // the crowd's
	seed   uint64
	kills  atomic.Int64

	mu     sync.Mutex
	others []*faultnet.Edge // they lead to the victim, too
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

func (p *payments) replace(ctx context.Context) error {
	victim, err := p.start(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.victim = victim // nil after an error: there is none to stop
	if err != nil {
		return err
	}
	p.edge.Forward(victim.Addr())
	for _, edge := range p.others {
		edge.Forward(victim.Addr())
	}
	return nil
}

// lead lets another edge lead to the service, and to each that replaces it.
func (p *payments) lead(edge *faultnet.Edge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	edge.Forward(p.victim.Addr())
	p.others = append(p.others, edge)
}

// killSometimes kills the service each time that so many checkouts are accepted, while it is working, and
// starts it again. It returns when it is done or stop is closed.
func (p *payments) killSometimes(ctx context.Context, due iter.Seq[int64], accepted func() int64, stop <-chan struct{}) error {
	rng := rand.New(rand.NewPCG(p.seed, 0))
	for due := range due {
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
