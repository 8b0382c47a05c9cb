package engine

import (
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// isAsynchronous reports whether the claim of c need not be durable before its run ([store.ClaimRequest].Asynchronous).
// A crash of the store can then forget the claim while its run goes on. The run changes nothing, because its settlement
// finds no record. But the next run of the key has the same fence, and a later time of the first claim, so neither may
// leave a run before its claim is durable: makeDurable.
//
// Only the first claim of a Transactional run is asynchronous. The claim of a retry is durable, because the earlier
// attempt may have crashed the server, and such deaths must be counted. So are the claims of an inbox, which
// counts the deaths of its consumers.
func (e *Engine) isAsynchronous(c *Call) bool {
	return c.Route.Effect == store.Transactional && !c.CountsAttempts && !c.mayRepeat(e.cfg.Lease)
}

// makeDurable makes the run's claim durable if it is not yet, which blocks for a write of the store, and reports
// whether it is. Only then may the run's fence and the time of its first claim leave the run.
func (r *run) makeDurable() bool {
	if r.durable.Load() {
		return true
	}
	r.confirm.Do(r.renewUntilDurable)
	return r.durable.Load()
}

// renewUntilDurable renews the run's lease, which is a durable write behind the claim. If the store does not confirm
// the claim, the run ends: another run of the key may begin then, and nothing may leave this one.
func (r *run) renewUntilDurable() {
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
