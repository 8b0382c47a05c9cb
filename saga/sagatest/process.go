package sagatest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

type roundTripper = http.RoundTripper

var errKilled = errors.New("sagatest: the process was killed")

// A process is the process of one engine. All its calls to the journal and to services go through
// it, and there it can be killed or paused.
type process struct {
	journal.Journal
	network roundTripper
	// begins hears of each call before the point where it can be disturbed. resumed says that its
	// owner took the saga over.
	begins func(step string, resumed bool)
	end    <-chan struct{} // the scenario is over
	lease  time.Duration   // of its engine

	disturb disturbance // at that point; none: never
	point   int
	cancel  func() // of the saga, by a person
	turn    func() // the journal's clock back
	send    func() // all signals

	mu      sync.Mutex
	points  int
	dead    chan struct{} // closed when it is killed
	resumes time.Time     // it stands still until then
}

// pass lets an action happen that is not a point for a disturbance.
func (p *process) pass() error {
	for {
		p.mu.Lock()
		wait := time.Until(p.resumes)
		p.mu.Unlock()
		select {
		case <-p.dead:
			<-p.end // a dead process does nothing any more
			return errKilled
		default:
		}
		if wait <= 0 {
			return nil
		}
		time.Sleep(wait)
	}
}

// at is pass at a point for a disturbance.
func (p *process) at() error {
	p.mu.Lock()
	p.points++
	here := p.disturb != none && p.points == p.point
	if here && p.disturb == kill {
		close(p.dead)
	}
	if here && p.disturb == pause {
		p.resumes = time.Now().Add(p.lease + p.lease/5)
	}
	p.mu.Unlock()
	if here && p.disturb == turnBack {
		p.turn()
	}
	if here && p.disturb == sendHere {
		p.send()
	}
	if here && (p.disturb == cancel || p.disturb == cancelHere) {
		p.cancel()
	}
	return p.pass()
}

// pointCount returns the number of points so far.
func (p *process) pointCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.points
}

// Heartbeat implements [journal.Journal].
func (p *process) Heartbeat(ctx context.Context, engine journal.EngineID, lease time.Duration) error {
	if err := p.pass(); err != nil {
		return err
	}
	return p.Journal.Heartbeat(ctx, engine, lease)
}

// Start implements [journal.Journal].
func (p *process) Start(ctx context.Context, req journal.StartRequest) (journal.Record, bool, error) {
	if err := p.at(); err != nil {
		return journal.Record{}, false, err
	}
	// A request that was sent arrives, even if its process dies.
	r, created, err := p.Journal.Start(context.WithoutCancel(ctx), req)
	if dead := p.at(); dead != nil {
		return journal.Record{}, false, dead
	}
	return r, created, err
}

// Append implements [journal.Journal].
func (p *process) Append(ctx context.Context, o journal.Owner, w journal.Write) error {
	if err := p.at(); err != nil {
		return err
	}
	err := p.Journal.Append(context.WithoutCancel(ctx), o, w)
	if dead := p.at(); dead != nil {
		return dead
	}
	return err
}

// Claim implements [journal.Journal].
func (p *process) Claim(ctx context.Context, req journal.ClaimRequest) ([]journal.Record, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	return p.Journal.Claim(ctx, req)
}

// Read implements [journal.Journal].
func (p *process) Read(ctx context.Context, id journal.ID) (journal.Record, error) {
	if err := p.pass(); err != nil {
		return journal.Record{}, err
	}
	return p.Journal.Read(ctx, id)
}

// ReadOutlines implements [journal.Journal].
func (p *process) ReadOutlines(ctx context.Context, ids []journal.ID) ([]journal.Record, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	return p.Journal.ReadOutlines(ctx, ids)
}

// EndWait implements [journal.Journal].
func (p *process) EndWait(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
	if err := p.at(); err != nil {
		return journal.Signal{}, err
	}
	stored, err := p.Journal.EndWait(context.WithoutCancel(ctx), o, name)
	if dead := p.at(); dead != nil {
		return journal.Signal{}, dead
	}
	return stored, err
}

// Signals implements [journal.Journal].
func (p *process) Signals(ctx context.Context, ids []journal.ID) ([]journal.Signal, error) {
	if err := p.at(); err != nil {
		return nil, err
	}
	found, err := p.Journal.Signals(ctx, ids)
	if dead := p.at(); dead != nil {
		return nil, dead
	}
	return found, err
}

// WakeSignalled implements [journal.Journal].
func (p *process) WakeSignalled(ctx context.Context) (int, error) {
	if err := p.pass(); err != nil {
		return 0, err
	}
	return p.Journal.WakeSignalled(ctx)
}

// List implements [journal.Journal].
func (p *process) List(ctx context.Context, req journal.ListRequest) ([]journal.Record, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	return p.Journal.List(ctx, req)
}

// RoundTrip passes a call on.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if info, ok := saga.FromContext(req.Context()); ok && !info.Undo {
		inbound, _ := wire.FromContext(req.Context())
		p.begins(info.Step, inbound.Rerun)
	}
	if err := p.at(); err != nil {
		return nil, err
	}
	resp, err := p.network.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
	if dead := p.at(); dead != nil {
		return nil, dead
	}
	return resp, err
}
