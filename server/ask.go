package server

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// maxLostRaces bounds how often one ask starts over because somebody else
// moved the record in between. Each lost race is somebody else's progress.
const maxLostRaces = 16

// A finding is what an ask came to.
type finding struct {
	record Record
	mine   bool      // the request's token owns the key now
	asked  time.Time // this process's clock, before the request that made it the owner was sent
	decision
}

// ask brings the request before the store: it claims the key, takes it over or
// buries its dead owner, until either the key is ours or the record decides.
// It never reports a key as ours that the store did not give us.
//
// known says that there was a record a moment ago: it is read, which costs a
// statement less than a claim that comes too late.
//
// It does not end with ctx: a claim whose client hung up under way would be
// left without a run, and an opaque one then counts as died.
func (g *Guard) ask(ctx context.Context, c *call, known bool) (finding, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.StoreTimeout)
	defer cancel()
	started, window := time.Now(), g.claimWatch.now()
	first := g.claim
	if known {
		first = g.read
	}
	f, err := first(ctx, c)
	for range maxLostRaces {
		if errors.Is(err, ErrNotFound) { // swept in between
			f, err = g.claim(ctx, c)
			continue
		}
		if err != nil || f.mine {
			break
		}
		f.decision = decide(&f.record, c.fingerprintFor(&f.record), g.cfg.MaxDeaths)
		if f.verdict != verdictTakeOver && f.verdict != verdictBury {
			break
		}
		f, err = g.move(ctx, c, f)
	}
	if err == nil && !f.mine && f.verdict != verdictReplay && f.verdict != verdictRefuse {
		f.decision = decision{verdict: verdictWait} // alive, or contended: somebody else is at it
	}
	if err == nil && f.mine {
		took := time.Since(started)
		window.add(took)
		g.observe(Event{Kind: EventClaimed, Route: c.route.Name, ID: c.id, Duration: took})
	}
	return f, err
}

// claim asks for an absent key. If the fate of the write is unknown it asks
// once more: the token knows itself, and an orphaned claim would hold the key
// for a whole lease.
func (g *Guard) claim(ctx context.Context, c *call) (finding, error) {
	f := finding{asked: time.Now()}
	var err error
	f.record, f.mine, err = g.store.Claim(ctx, c.claim(g))
	if errors.Is(err, ErrFateUnknown) && ctx.Err() == nil {
		f.asked = time.Now()
		f.record, f.mine, err = g.store.Claim(ctx, c.claim(g))
	}
	f.mine = err == nil && (f.mine || c.owns(&f.record))
	return f, err
}

// read asks for a key that was there.
func (g *Guard) read(ctx context.Context, c *call) (f finding, err error) {
	f.asked = time.Now()
	f.record, err = g.store.Read(ctx, c.id)
	f.mine = err == nil && c.owns(&f.record)
	return f, err
}

// move carries out a decision to take over or to bury.
func (g *Guard) move(ctx context.Context, c *call, f finding) (finding, error) {
	next := finding{asked: time.Now()}
	from := f.record.Fence
	if f.verdict == verdictBury {
		rec, buried, err := g.store.Bury(ctx, BuryRequest{ID: c.id, From: from, To: f.bury, Route: g.storedRoute(c.route.Name)})
		if buried {
			g.observeBurial(c.route.Name, c.id, f.bury)
		}
		next.record = rec
		return next, err
	}
	rec, won, err := g.store.TakeOver(ctx, c.claim(g), from)
	if errors.Is(err, ErrFateUnknown) && ctx.Err() == nil {
		next.asked = time.Now()
		rec, won, err = g.store.TakeOver(ctx, c.claim(g), from)
	}
	next.record = rec
	next.mine = err == nil && (won || c.owns(&rec))
	if next.mine && f.record.State == StateInProgress {
		g.observe(Event{Kind: EventTakeOver, Route: c.route.Name, ID: c.id})
	}
	return next, err
}

func (g *Guard) observeBurial(route string, id ID, to State) {
	kind := EventPoisoned
	if to == StateUnknown {
		kind = EventUnknown
	}
	g.observe(Event{Kind: kind, Route: route, ID: id})
}

// storeRefusal is the answer to an error of the store: it fails closed.
func storeRefusal(err error) outcome {
	switch {
	case errors.Is(err, ErrExpired):
		return outcome{code: wire.KeyExpired}
	case errors.Is(err, ErrRecordUnreadable):
		return outcome{code: wire.RecordUnreadable, err: err}
	case errors.Is(err, ErrInProgress):
		return contendedRefusal()
	default:
		return outcome{code: wire.StoreUnavailable, retryAfter: time.Second, err: err}
	}
}
