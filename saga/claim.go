package saga

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// claimBatch is how many orphans are claimed at a time.
const claimBatch = 100

// anyKey stands in for a saga's where only the names of a call are checked.
var anyKey = childkey.MustParse("any")

// claim takes orphans over until ctx ends.
func (e *Engine) claim(ctx context.Context) {
	next := time.Now() // when to reconcile
	for e.pauseOrPoke(ctx) {
		l := e.current()
		if !l.valid() || l.late() {
			continue
		}
		sure := e.claimAll(ctx, l)
		if sure && time.Now().Before(next) {
			continue
		}
		if err := e.reconcile(ctx, l); err != nil && ctx.Err() == nil {
			e.tell(EngineEvent{Kind: EngineJournalError, Engine: l.id, Err: err})
		}
		next = time.Now().Add(4 * e.cfg.Lease)
	}
}

// pauseOrPoke waits for the next look at the journal; false if ctx ended.
func (e *Engine) pauseOrPoke(ctx context.Context) bool {
	wait := e.cfg.Poll - time.Duration(float64(e.cfg.Poll/5)*min(max(e.cfg.Rand(), 0), 1))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.poke:
	case <-e.closing:
		return false
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil
}

// look has the claim loop look at once.
func (e *Engine) look() {
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// claimAll claims batches until there are no more orphans, or no more room. It
// returns false if a claim may have succeeded that is not known of.
func (e *Engine) claimAll(ctx context.Context, l *life) (sure bool) {
	for more := false; ; more = true {
		e.mu.Lock()
		limit := min(e.cfg.MaxActive-len(e.drives), claimBatch)
		suspects := 1
		for _, d := range e.drives {
			if d.suspect.Load() {
				suspects = 0
			}
		}
		parked := e.unparkable(more)
		e.mu.Unlock()
		if limit <= 0 {
			return true
		}
		claimed, err := e.journal.Claim(ctx, ClaimRequest{Engine: l.id, Plans: e.hashes, Parked: parked, Limit: limit, Suspects: suspects})
		switch {
		case errors.Is(err, ErrLeaseLost):
			l.lose(ErrLeaseLost)
			return true
		case err != nil:
			if ctx.Err() == nil {
				e.tell(EngineEvent{Kind: EngineJournalError, Engine: l.id, Err: err})
			}
			return false
		}
		orphans := 0
		for _, r := range claimed {
			if r.Fence > 1 {
				orphans++
			}
		}
		if orphans > 0 {
			e.tell(EngineEvent{Kind: EngineTookOver, Engine: l.id, Count: orphans})
		}
		for _, r := range claimed {
			from := takenOver
			if r.Fence == 1 {
				from = neverDriven
			}
			e.adopt(l, r, from)
		}
		if len(claimed) < limit {
			return true
		}
	}
}

// reconcile looks for sagas that are this engine's by the journal and that it does
// not drive: those of a start or a claim whose answer was lost. They would wait
// for as long as the engine lives. And it counts what nobody drives for want of
// a definition, or of a newer build.
func (e *Engine) reconcile(ctx context.Context, l *life) error {
	err := e.each(ctx, ListRequest{Engine: l.id, Limit: 1000}, func(r Record) error {
		if e.driven(r.ID) != nil {
			return nil
		}
		r, err := e.journal.Read(ctx, r.ID)
		if err == nil && r.Engine == l.id && r.Status.Driven() {
			e.adopt(l, r, takenOver)
		}
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	parked, why := 0, error(nil)
	err = e.each(ctx, ListRequest{Orphans: true, Limit: 1000}, func(r Record) error {
		switch {
		case e.plans[r.Plan] == nil:
			parked, why = parked+1, cmp.Or(why, ErrNoDefinition)
		case r.Parked != nil:
			parked, why = parked+1, cmp.Or(why, r.Parked.err())
		}
		return nil
	})
	if err == nil {
		e.tellParked(l, parked, why)
	}
	return err
}

// tellParked tells of what is parked each time, and once that nothing is any more.
func (e *Engine) tellParked(l *life, n int, why error) {
	event := EngineEvent{Kind: EngineParked, Engine: l.id, Count: n, Err: why}
	if n > 0 || e.parked > 0 {
		e.tell(event)
	}
	e.parked = n
}

// each calls fn with every saga that matches.
func (e *Engine) each(ctx context.Context, req ListRequest, fn func(Record) error) error {
	for {
		page, err := e.journal.List(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
		}
		if len(page) < req.Limit {
			return nil
		}
		last := page[len(page)-1]
		req.After = Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
}
