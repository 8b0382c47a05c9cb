package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A store may answer a claim before it is durable ([store.ClaimRequest].Asynchronous). A crash can then forget the
// claim while its run goes on. The run changes nothing, because its settlement finds no record. Another run of the key
// has the same fence, and a later time of the first claim. So neither may leave the run before the claim is durable:
// the first renewal makes it so, and the run waits for one where it hands something out.

// maxHabits bounds how many routes have a habit. The claims of further routes are durable.
const maxHabits = 4096

// habits remember which routes hand out what a run knows of its claim. A run of such a route would wait for a renewal,
// so its claim is durable from the start. The first claims of a route are durable too.
type habits struct {
	mu     sync.Mutex
	routes map[string]*habit
}

// A habit is that of one route, in this process.
type habit struct {
	kept   atomic.Bool // a run was recorded and handed nothing out
	handed atomic.Bool // a run handed something out; it stays true
}

// inward reports that the runs of the route hand nothing out, as far as is known.
func (h *habit) inward() bool { return h != nil && h.kept.Load() && !h.handed.Load() }

// of returns the habit of a route; nil if there are too many routes.
func (h *habits) of(route string) *habit {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.routes[route]
	if !ok && len(h.routes) < maxHabits {
		if h.routes == nil {
			h.routes = make(map[string]*habit)
		}
		known = new(habit)
		h.routes[route] = known
	}
	return known
}

// habitOf returns the habit of c's route; nil if its claims are durable in any case. Those of an inbox are: it counts
// attempts by the fence.
func (e *Engine) habitOf(c *Call) *habit {
	if c.Route.Effect != store.Transactional || c.CountsAttempts {
		return nil
	}
	return e.habits.of(c.Route.Name)
}

// asynchronous reports whether the claim of c need not be durable before its run. The claim of a retry is durable: the
// earlier attempt may have crashed the server, and such deaths must be counted.
func (e *Engine) asynchronous(c *Call) bool {
	return !c.repeats(e.cfg.Lease) && e.habitOf(c).inward()
}

// handOut reports whether the run's fence and the time of its first claim may leave the run. It makes the claim durable
// if it is not yet, which blocks for a write of the store.
func (r *run) handOut() bool {
	if r.habit != nil {
		r.habit.handed.Store(true)
	}
	if r.durable.Load() {
		return true
	}
	r.confirm.Do(r.makeDurable)
	return r.durable.Load()
}

// makeDurable renews the run's lease, which is a durable write behind the claim. If the store does not confirm the
// claim, the run ends: then another run of the key may begin, and nothing may leave this one.
func (r *run) makeDurable() {
	end := time.Now().Add(r.engine.cfg.StoreTimeout)
	for wait := pollFirst; r.ctx.Err() == nil; wait = min(2*wait, pollLast) {
		r.engine.heartbeat.renewNow(r)
		switch {
		case r.durable.Load():
			return
		case time.Until(end) <= wait:
			r.lose()
			return
		}
		sleep(r.ctx, wait)
	}
}
