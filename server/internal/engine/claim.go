package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// maxLostRaces bounds how often one ask starts over because another process
// moved the record in between. Each lost race is progress of another process.
const maxLostRaces = 16

// A finding is the result of an ask.
type finding struct {
	record store.Record
	mine   bool      // the request's token owns the key now
	asked  time.Time // this process's clock, before the request that made it the owner was sent
	decision
}

// ask calls the store: it claims the key, takes it over or quarantines it,
// until either the key is ours or the record decides. It reports a key as ours
// only if the store gave it to us.
//
// known says that there probably is a record. Then ask reads it, which costs one statement less than a claim that
// comes too late. If there is no record, the claim follows.
//
// ask does not end with ctx. Otherwise a client that hangs up would leave a claim without a run, and an Opaque run
// would then count as dead.
func (e *Engine) ask(ctx context.Context, c *Call, known bool) (finding, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.StoreTimeout)
	defer cancel()
	started := time.Now()
	var f finding
	var err error
	if known || c.Unclaimable != nil {
		f, err = e.read(ctx, c)
	} else {
		f, err = e.claim(ctx, c)
	}
	for range maxLostRaces {
		if errors.Is(err, store.ErrNotFound) { // swept in between
			f, err = e.claim(ctx, c)
			continue
		}
		if err != nil || f.mine {
			break
		}
		f.decision = decide(&f.record, e.fingerprintFor(c, &f.record), e.cfg.MaxRecoveryAttempts)
		if f.code != wire.KeyReused && e.unsettled.decides(&f.record) {
			f.decision = decision{action: actionWait}
		}
		if f.action != actionTakeOver && f.action != actionQuarantine {
			break
		}
		f, err = e.move(ctx, c, f)
	}
	if err == nil && !f.mine && f.action != actionReplay && f.action != actionRefuse {
		f.decision = decision{action: actionWait} // alive, or contended: another caller has the key
	}
	if err == nil && f.mine {
		c.doubtful = nil
		e.observe(ctx, store.Event{Kind: store.EventClaimed, Route: c.Route.Name, ID: c.ID, Parent: c.Inbound.Parent, Duration: time.Since(started)})
	}
	return f, err
}

// claim asks for an absent key. If the fate of the write is unknown it asks
// once more: the token finds its own claim. An orphaned claim would hold the
// key for a whole lease.
func (e *Engine) claim(ctx context.Context, c *Call) (finding, error) {
	f := finding{asked: time.Now()}
	if c.Unclaimable != nil {
		return f, &unclaimableError{c.Unclaimable}
	}
	req := c.claim(e)
	req.Asynchronous = e.isAsynchronous(c)
	var err error
	f.record, f.mine, err = e.store.Claim(ctx, req)
	c.doubt(err, req, 0)
	if errors.Is(err, store.ErrFateUnknown) && ctx.Err() == nil {
		f.asked = time.Now()
		req.Asynchronous = false // perhaps the server has crashed
		f.record, f.mine, err = e.store.Claim(ctx, req)
	}
	f.mine = err == nil && (f.mine || c.isOwner(&f.record))
	return f, err
}

// read asks for a key that is probably there. A claim of this call whose answer was lost
// may be there, and may not be durable yet: only a claim makes sure of it.
func (e *Engine) read(ctx context.Context, c *Call) (finding, error) {
	rec, err := e.store.Read(ctx, c.ID)
	if err == nil && c.isOwner(&rec) {
		return e.claim(ctx, c)
	}
	return finding{record: rec}, err
}

// move carries out a decision to take over or to quarantine.
func (e *Engine) move(ctx context.Context, c *Call, f finding) (finding, error) {
	next := finding{asked: time.Now()}
	from := f.record.Fence
	if f.action == actionQuarantine {
		rec, quarantined, err := e.store.Quarantine(ctx, store.QuarantineRequest{ID: c.ID, From: from, To: f.to, Route: e.StoredRoute(c.Route.Name)})
		if quarantined {
			e.observeQuarantine(ctx, c.Route.Name, c.ID, f.to)
		}
		next.record = rec
		return next, err
	}
	if c.Unclaimable != nil {
		return next, &unclaimableError{c.Unclaimable}
	}
	req := c.claim(e)
	rec, won, err := e.store.TakeOver(ctx, req, from)
	c.doubt(err, req, from)
	if errors.Is(err, store.ErrFateUnknown) && ctx.Err() == nil {
		next.asked = time.Now()
		rec, won, err = e.store.TakeOver(ctx, req, from)
	}
	next.record = rec
	next.mine = err == nil && (won || c.isOwner(&rec))
	if next.mine && f.record.State == store.StateInProgress {
		e.observe(ctx, store.Event{Kind: store.EventTakeOver, Route: c.Route.Name, ID: c.ID})
	}
	return next, err
}

func (e *Engine) observeQuarantine(ctx context.Context, route string, id store.ID, to store.State) {
	kind := store.EventQuarantined
	if to == store.StateUnknown {
		kind = store.EventUnknown
	}
	e.observe(ctx, store.Event{Kind: kind, Route: route, ID: id})
}

// An unclaimableError ends the ask of a call that had to claim and could not: see [Call].Unclaimable.
type unclaimableError struct{ err error }

func (e *unclaimableError) Error() string { return e.err.Error() }
func (e *unclaimableError) Unwrap() error { return e.err }

// claimRefusal is the answer to an error of the store before a run. It says that the attempt ran nothing if the store
// said that the key was not claimed. If the claim was never sent, the code says so too: a caller counts the call as one
// that had no effect.
func claimRefusal(err error, doubtful bool) Outcome {
	out := StoreRefusal(err)
	var busy *store.BusyError
	var unclaimable *unclaimableError
	switch {
	case errors.As(err, &unclaimable):
		out.Code, out.Err = wire.NotClaimed, unclaimable.err
		out.Detail = "The service cannot encrypt what it must remember of this request. " + notClaimed
	case out.Code != wire.StoreUnavailable, doubtful, errors.Is(err, store.ErrFateUnknown):
	case errors.As(err, &busy):
		out.Code = wire.NotClaimed
		if busy.Size > 0 {
			out.Detail = fmt.Sprintf("All %d connections of the service's pool to its database %q are in use. %s", busy.Size, busy.Pool, notClaimed)
		}
	default:
		out.Detail = "The service's store does not answer. " + notClaimed
	}
	return out
}

const notClaimed = "The key was not claimed, and this attempt ran nothing. Send the same request with the same key again."

// StoreRefusal is the answer to an error of the store: it fails closed.
func StoreRefusal(err error) Outcome {
	switch {
	case errors.Is(err, store.ErrExpired):
		return Outcome{Code: wire.KeyExpired}
	case errors.Is(err, store.ErrRecordUnreadable):
		return Outcome{Code: wire.RecordUnreadable, Err: err}
	case errors.Is(err, store.ErrInProgress):
		return contendedRefusal()
	default:
		return Outcome{Code: wire.StoreUnavailable, RetryAfter: time.Second, Err: err}
	}
}
