package sagatest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga"
)

type roundTripper = http.RoundTripper

var errKilled = errors.New("sagatest: the process was killed")

// A process is what one engine runs in: everything that it does to the world
// passes its gate, where it can be killed or paused.
type process struct {
	saga.Journal
	network roundTripper
	begins  func(step string) // hears of each call before the point where it can be disturbed
	end     <-chan struct{}   // the scenario is over

	disturb disturbance // at that point; none: never
	point   int
	cancel  func() // of the saga, by a person

	mu      sync.Mutex
	points  int
	dead    chan struct{} // closed when it is killed
	resumes time.Time     // it stands still until then
}

// pass lets something happen that is no point to be disturbed at.
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

// at is pass at a point.
func (p *process) at() error {
	p.mu.Lock()
	p.points++
	here := p.disturb != none && p.points == p.point
	if here && p.disturb == kill {
		close(p.dead)
	}
	if here && p.disturb == pause {
		p.resumes = time.Now().Add(exploreLease + time.Minute)
	}
	p.mu.Unlock()
	if here && p.disturb == cancel {
		p.cancel()
	}
	return p.pass()
}

// seen returns how many points there were.
func (p *process) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.points
}

// Beat implements [saga.Journal].
func (p *process) Beat(ctx context.Context, engine saga.EngineID, lease time.Duration) error {
	if err := p.pass(); err != nil {
		return err
	}
	return p.Journal.Beat(ctx, engine, lease)
}

// Start implements [saga.Journal].
func (p *process) Start(ctx context.Context, req saga.StartRequest) (saga.Record, bool, error) {
	if err := p.at(); err != nil {
		return saga.Record{}, false, err
	}
	// What was sent arrives, whatever became of who sent it.
	r, created, err := p.Journal.Start(context.WithoutCancel(ctx), req)
	if dead := p.at(); dead != nil {
		return saga.Record{}, false, dead
	}
	return r, created, err
}

// Append implements [saga.Journal].
func (p *process) Append(ctx context.Context, o saga.Owner, w saga.Write) error {
	if err := p.at(); err != nil {
		return err
	}
	err := p.Journal.Append(context.WithoutCancel(ctx), o, w)
	if dead := p.at(); dead != nil {
		return dead
	}
	return err
}

// Claim implements [saga.Journal].
func (p *process) Claim(ctx context.Context, req saga.ClaimRequest) ([]saga.Record, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	return p.Journal.Claim(ctx, req)
}

// Read implements [saga.Journal].
func (p *process) Read(ctx context.Context, id saga.ID) (saga.Record, error) {
	if err := p.pass(); err != nil {
		return saga.Record{}, err
	}
	return p.Journal.Read(ctx, id)
}

// List implements [saga.Journal].
func (p *process) List(ctx context.Context, req saga.ListRequest) ([]saga.Record, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	return p.Journal.List(ctx, req)
}

// RoundTrip passes a call on.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if info, ok := saga.FromContext(req.Context()); ok && !info.Undo {
		p.begins(info.Step)
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
