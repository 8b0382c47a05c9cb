package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// claimBatch is how many unowned sagas are claimed at a time.
const claimBatch = 100

// claim claims unowned sagas until ctx ends, and does nothing else.
func (e *Engine) claim(ctx context.Context) {
	for e.pauseBeforeClaim(ctx) {
		l := e.current()
		if l.isValid() && !l.isLate() && !e.claimAll(ctx, l) {
			e.reconcileSoon()
		}
	}
}

// pauseBeforeClaim waits for the next look at the journal, until a saga wakes up at the latest;
// false if ctx ended.
func (e *Engine) pauseBeforeClaim(ctx context.Context) bool {
	timer := time.NewTimer(e.wakes.untilNext(e.poll()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.poke:
	case <-e.closing:
		return false
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil && !e.isClosing()
}

// poll returns the wait before the journal is looked at again. Engines that were started
// together look at different times.
func (e *Engine) poll() time.Duration {
	return e.cfg.Poll - time.Duration(float64(e.cfg.Poll/5)*min(max(e.cfg.Rand(), 0), 1))
}

// look has the claim loop look at once.
func (e *Engine) look() {
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// claimAll claims batches until there are no more unowned sagas, or no more room. It
// returns false if a claim may have succeeded that is not known of.
func (e *Engine) claimAll(ctx context.Context, l *lease) (sure bool) {
	plans := e.hashes // that may have more
	for more := false; ; more = true {
		req := e.places(plans)
		if req.Limit == 0 {
			return true
		}
		req.Engine, req.Backoff = l.id, e.cfg.Lease
		req.Deferred = e.claimableDeferred(req.Plans, more)
		asked := time.Now()
		claimed, err := e.journal.Claim(ctx, req)
		switch {
		case errors.Is(err, journal.ErrLeaseLost):
			l.lose(journal.ErrLeaseLost)
			return true
		case err != nil:
			if ctx.Err() == nil {
				e.tell(journal.Event{Kind: journal.EventJournalError, Engine: l.id, Err: err})
			}
			return false
		}
		e.adoptAll(l, claimed, asked)
		if len(claimed) == req.Limit {
			continue
		}
		if plans = fullPlans(req, claimed); len(plans) == 0 {
			return true
		}
	}
}

// fullPlans returns the plans for which a claim got all the sagas that it asked for.
func fullPlans(req journal.ClaimRequest, claimed []journal.Record) []journal.PlanHash {
	got := make(map[journal.PlanHash]int)
	for _, r := range claimed {
		got[r.Plan]++
	}
	return slices.DeleteFunc(slices.Clone(req.Plans), func(plan journal.PlanHash) bool { return got[plan] < req.PerPlan })
}

// adoptAll executes what was claimed. The journal was asked at the time asked.
func (e *Engine) adoptAll(l *lease, claimed []journal.Record, asked time.Time) {
	taken := 0
	for _, r := range claimed {
		if r.Fence > 1 && !r.Clean {
			taken++
		}
	}
	if taken > 0 {
		e.tell(journal.Event{Kind: journal.EventTookOver, Engine: l.id, Count: taken})
	}
	for _, r := range claimed {
		from := takenOver
		switch {
		case r.Fence == 1:
			from = neverDriven
		case r.Clean:
			from = wokenUp
		}
		e.adopt(l, r, from, asked)
	}
}

// places returns how many sagas of which of these plans the engine has room for, as a
// request for a batch; a Limit of 0 means that there is none.
//
// Half of the places are divided among the plans: no other plan gets them. So the sagas of
// one plan, however many there are and however long they take, leave places for the others.
// The other half is for all.
func (e *Engine) places(plans []journal.PlanHash) journal.ClaimRequest {
	e.mu.Lock()
	executed := make(map[journal.PlanHash]int)
	for _, x := range e.executions {
		if x.waiting.Load() == 0 { // a saga that waits for another needs no place
			executed[x.record.Plan]++
		}
	}
	e.mu.Unlock()
	own := e.cfg.MaxActive / (2 * len(e.hashes))
	common := e.cfg.MaxActive - own*len(e.hashes)
	for _, n := range executed {
		common -= max(0, n-own)
	}
	req := journal.ClaimRequest{PerPlan: claimBatch}
	share := max(common, 0) / max(len(plans), 1)
	if common > 0 && share == 0 { // fewer than plans: one for each that is quick
		return journal.ClaimRequest{Plans: plans, PerPlan: 1, Limit: common}
	}
	for _, plan := range plans {
		if room := max(0, own-executed[plan]) + share; room > 0 {
			req.Plans, req.PerPlan = append(req.Plans, plan), min(req.PerPlan, room)
		}
	}
	req.Limit = min(claimBatch, len(req.Plans)*req.PerPlan)
	return req
}

// maxWakes is how many wakes an engine remembers. A saga whose wake it does not remember is
// found by the next look, at most a Poll later.
const maxWakes = 1024

// wakes are the times, by this process's clock, at which sagas wake up that the engine gave
// up: the next ones of them. The claim loop looks then, and need not wait for its Poll.
type wakes struct {
	mu    sync.Mutex
	times []time.Time // the earliest first
}

func (w *wakes) add(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.times, t, time.Time.Compare)
	w.times = slices.Insert(w.times, i, t)
	w.times = w.times[:min(len(w.times), maxWakes)]
}

// untilNext returns how long it is until the next one, but at most d. It forgets those that are
// over.
func (w *wakes) untilNext(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	over, _ := slices.BinarySearchFunc(w.times, now.Add(1), time.Time.Compare)
	w.times = slices.Delete(w.times, 0, over)
	if len(w.times) == 0 {
		return d
	}
	return min(d, w.times[0].Sub(now))
}
