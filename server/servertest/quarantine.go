package servertest

import (
	"sync/atomic"

	"github.com/fanonce/fanonce/server/store"
)

var quarantineRules = []rule{
	{"quarantine: a dead run is quarantined, and its death is counted", quarantineTheDead},
	{"quarantine: the record gets the route of the request", quarantineRecordsTheRoute},
	{"quarantine: no other record is quarantined", quarantineNothingElse},
	{"quarantine: one of 32 concurrent quarantines and take-overs wins", quarantineRacesTakeOver},
	{"quarantine: an absent key is not found", quarantineOfAbsent},
}

func quarantineTheDead(c *check) {
	for _, tt := range []struct {
		effect   store.Effect
		to       store.State
		maybeRan bool
	}{
		{store.Opaque, store.StateUnknown, true},
		{store.Keyed, store.StateQuarantined, true},
		{store.Transactional, store.StateQuarantined, false},
	} {
		dead := c.claimDead(tt.effect)
		r := c.quarantine(grave(dead, tt.to))
		expect := dead
		expect.State, expect.RecoveryAttempts, expect.MaybeRan = tt.to, 1, tt.maybeRan
		expect.Fence = r.Fence // may grow
		if diff := difference(r, expect); diff != "" {
			c.Errorf("quarantined record: %s", diff)
		}
		c.wantUnchanged(r)
	}
}

func quarantineRecordsTheRoute(c *check) {
	for _, effect := range []store.Effect{store.Transactional, store.Keyed, store.Opaque} {
		for _, route := range []string{"", "POST /charges"} {
			req := request(newID())
			req.Effect, req.Route, req.Lease = effect, "POST /orders", gone
			dead := c.claim(req)
			c.untilDead(dead.ID)
			quarantine := grave(dead, store.StateQuarantined)
			quarantine.Route = route
			expect := route
			if route == "" && effect == store.Opaque {
				expect = req.Route
			}
			want(c, "Route of a quarantined record", c.quarantine(quarantine).Route, expect)
			want(c, "Route, read", c.read(dead.ID).Route, expect)
		}
	}
}

func quarantineNothingElse(c *check) {
	for _, s := range everyState {
		if s.dead {
			continue
		}
		before := s.put(c)
		r, quarantined, err := c.store.Quarantine(c.Context(), grave(before, store.StateUnknown))
		c.must("Quarantine of a key "+s.name, err)
		want(c, "Quarantine of a key "+s.name, quarantined, false)
		if diff := difference(r, before); diff != "" {
			c.Errorf("Quarantine of a key %s: %s", s.name, diff)
		}
		c.wantUnchanged(before)
	}
	dead := c.claimDead(store.Opaque)
	req := request(dead.ID)
	req.Lease = gone
	c.takeOver(req, 1)
	before := c.untilDead(dead.ID)
	_, quarantined, err := c.store.Quarantine(c.Context(), grave(dead, store.StateUnknown))
	c.must("Quarantine", err)
	want(c, "Quarantine from a fence that has passed", quarantined, false)
	c.wantUnchanged(before)
}

func quarantineRacesTakeOver(c *check) {
	for range 10 {
		dead := c.claimDead(store.Keyed)
		var wins atomic.Int32
		runAtOnce(32, func(i int) {
			var won bool
			var err error
			if i%2 == 0 {
				_, won, err = c.store.Quarantine(c.Context(), grave(dead, store.StateQuarantined))
			} else {
				_, won, err = c.store.TakeOver(c.Context(), request(dead.ID), 1)
			}
			if err != nil {
				c.Errorf("Quarantine or TakeOver: error = %v, want none", err)
			}
			if won {
				wins.Add(1)
			}
		})
		want(c, "winners", wins.Load(), 1)
		want(c, "RecoveryAttempts", c.read(dead.ID).RecoveryAttempts, 1)
	}
}

func quarantineOfAbsent(c *check) {
	_, quarantined, err := c.store.Quarantine(c.Context(), store.QuarantineRequest{ID: newID(), From: 1, To: store.StateUnknown})
	c.wantErr("Quarantine of an absent key", err, store.ErrNotFound)
	want(c, "Quarantine of an absent key", quarantined, false)
}
