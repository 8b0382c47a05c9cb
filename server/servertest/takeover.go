package servertest

import (
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var takeOverRules = []rule{
	{"take-over: a key is not taken over before its lease ends by the store's clock", takeOverWaitsForTheLease},
	{"take-over: a released key is taken over at once", takeOverOfReleased},
	{"take-over: only a released key without effects takes the request's fingerprint", takeOverOfCorrected},
	{"take-over: the owner changes, and the values of the key stay", takeOverKeepsTheKey},
	{"take-over: one of 32 concurrent take-overs wins, and each fence has one owner", oneTakeOverWins},
	{"take-over: a take-over from another fence changes nothing", takeOverComparesTheFence},
	{"take-over: no key in another state is taken over", takeOverOfOthers},
	{"take-over: deaths are counted, and MaybeRan is set", takeOverCountsRecoveryAttempts},
	{"take-over: the window counts from the first claim", takeOverWindow},
	{"take-over: an absent key is not found", takeOverOfAbsent},
}

func takeOverWaitsForTheLease(c *check) {
	alive := c.claimNew()
	r, won, err := c.store.TakeOver(c.Context(), request(alive.ID), 1)
	c.must("TakeOver of a live run", err)
	want(c, "TakeOver of a live run: won", won, false)
	if diff := difference(r, alive); diff != "" {
		c.Fatalf("TakeOver of a live run: %s", diff)
	}
	c.wantUnchanged(alive)

	req := request(newID())
	req.Lease = brief
	first := c.claim(req)
	c.eventually("the take-over", func() bool {
		r, won, err = c.store.TakeOver(c.Context(), request(req.ID), 1)
		c.must("TakeOver", err)
		return won
	})
	if r.Now.Before(first.LeaseUntil) {
		c.Errorf("taken over at %v, %v before the lease ended", r.Now, first.LeaseUntil.Sub(r.Now))
	}
}

func takeOverOfReleased(c *check) {
	r := c.claimNew()
	c.settle(owner(r), release)
	next := c.takeOver(request(r.ID), 1)
	want(c, "RecoveryAttempts after a release", next.RecoveryAttempts, 0)
	want(c, "MaybeRan after a release without effects", next.MaybeRan, false)
}

func takeOverOfCorrected(c *check) {
	r := c.claimNew()
	c.settle(owner(r), release)
	corrected := request(r.ID)
	r = c.takeOver(corrected, 1)
	want(c, "Fingerprint after a release without effects", r.Fingerprint, corrected.Fingerprint)
	want(c, "Fingerprint as read", c.read(r.ID).Fingerprint, corrected.Fingerprint)

	c.settle(owner(r), store.Settlement{State: store.StateReleased, MaybeRan: true})
	want(c, "Fingerprint after a release with effects", c.takeOver(request(r.ID), 2).Fingerprint, corrected.Fingerprint)

	dead := c.claimDead(store.Transactional)
	want(c, "Fingerprint after a death", c.takeOver(request(dead.ID), 1).Fingerprint, dead.Fingerprint)
}

func takeOverKeepsTheKey(c *check) {
	req := request(newID())
	req.Lease, req.Effect = gone, store.Transactional
	req.FirstSent, req.Window = c.storeNow().Add(-time.Minute), time.Hour
	first := c.claim(req)
	c.untilDead(req.ID)

	next := request(req.ID)
	next.Keep, next.Effect = 2*keep, store.Opaque
	next.FirstSent, next.Window = req.FirstSent.Add(time.Second), time.Hour
	r := c.takeOver(next, 1)
	expect := first
	expect.Token, expect.Fence, expect.Effect, expect.RecoveryAttempts, expect.LeaseUntil = next.Token, 2, next.Effect, 1, r.LeaseUntil
	if diff := difference(r, expect); diff != "" {
		c.Errorf("record after a take-over: %s", diff)
	}
	if left := r.LeaseLeft(); left <= 0 || left > next.Lease {
		c.Errorf("lease left = %v, want at most %v", left, next.Lease)
	}
	c.wantUnchanged(r)
}

func oneTakeOverWins(c *check) {
	for range 10 {
		r := c.claimDead(store.Keyed)
		var wins atomic.Int32
		runAtOnce(32, func(int) {
			req := request(r.ID)
			got, won, err := c.store.TakeOver(c.Context(), req, 1)
			if err != nil {
				c.Errorf("TakeOver: error = %v, want none", err)
				return
			}
			if won {
				wins.Add(1)
			}
			if won != (got.Token == req.Token) || got.Fence != 2 {
				c.Errorf("TakeOver: won = %v, with token %x and fence %d, want own token only if won, and fence 2", won, got.Token, got.Fence)
			}
		})
		want(c, "winners", wins.Load(), 1)
		want(c, "RecoveryAttempts", c.read(r.ID).RecoveryAttempts, 1)
	}
}

func takeOverComparesTheFence(c *check) {
	r := c.claimDead(store.Keyed)
	for _, from := range []int64{0, 2, 3} {
		_, won, err := c.store.TakeOver(c.Context(), request(r.ID), from)
		c.must("TakeOver", err)
		if won {
			c.Fatalf("TakeOver of fence 1 from %d won = true, want false", from)
		}
	}
	req := request(r.ID)
	req.Lease = gone
	c.takeOver(req, 1)
	moved := c.untilDead(r.ID)
	got, won, err := c.store.TakeOver(c.Context(), request(r.ID), 1)
	c.must("TakeOver", err)
	want(c, "TakeOver from a fence that has passed: won", won, false)
	if diff := difference(got, moved); diff != "" {
		c.Errorf("TakeOver from a fence that has passed: %s", diff)
	}
	want(c, "fence of the third owner", c.takeOver(request(r.ID), 2).Fence, 3)
}

func takeOverOfOthers(c *check) {
	for _, s := range everyState {
		before := s.put(c)
		if s.dead || before.State == store.StateReleased {
			continue
		}
		r, won, err := c.store.TakeOver(c.Context(), request(before.ID), before.Fence)
		c.must("TakeOver of a key "+s.name, err)
		want(c, "TakeOver of a key "+s.name+": won", won, false)
		if diff := difference(r, before); diff != "" {
			c.Errorf("TakeOver of a key %s: %s", s.name, diff)
		}
		c.wantUnchanged(before)
	}
}

func takeOverCountsRecoveryAttempts(c *check) {
	id := newID()
	// The effect of the run that died counts, not the effect of the next.
	for i, step := range []struct {
		effect   store.Effect
		maybeRan bool // when this run begins
	}{
		{store.Transactional, false}, {store.Transactional, false}, {store.Keyed, false}, {store.Transactional, true}, {store.Transactional, true},
	} {
		req := request(id)
		req.Effect, req.Lease = step.effect, gone
		var r store.Record
		if i == 0 {
			r = c.claim(req)
		} else {
			r = c.takeOver(req, int64(i))
		}
		want(c, "fence", r.Fence, int64(i+1))
		want(c, "RecoveryAttempts", r.RecoveryAttempts, i)
		want(c, "MaybeRan", r.MaybeRan, step.maybeRan)
		c.untilDead(id)
	}
	opaque := c.claimDead(store.Opaque)
	want(c, "MaybeRan after an opaque death", c.takeOver(request(opaque.ID), 1).MaybeRan, true)
}

func takeOverWindow(c *check) {
	now := c.storeNow()
	req := request(newID())
	req.Lease, req.FirstSent, req.Window = gone, now.Add(-time.Hour), 2*time.Hour
	c.claim(req)
	before := c.untilDead(req.ID)

	late := request(req.ID)
	late.FirstSent, late.Window = now, time.Hour-time.Minute // fresh by its own FirstSent
	_, won, err := c.store.TakeOver(c.Context(), late, 1)
	c.wantErr("TakeOver of a key that is too old", err, store.ErrExpired)
	want(c, "TakeOver of a key that is too old: won", won, false)
	c.wantUnchanged(before)

	late.FirstSent, late.Window = now.Add(-3*time.Hour), 2*time.Hour // the first claim's FirstSent counts
	c.takeOver(late, 1)
}

func takeOverOfAbsent(c *check) {
	id := newID()
	_, won, err := c.store.TakeOver(c.Context(), request(id), 1)
	c.wantErr("TakeOver of an absent key", err, store.ErrNotFound)
	want(c, "TakeOver of an absent key: won", won, false)
	c.wantAbsent(id)
}
