package servertest

import (
	"sync/atomic"

	"github.com/fanonce/fanonce/server"
)

var buryLaws = []law{
	{"bury: the dead only, and it is counted", buryTheDead},
	{"bury: the route of who buries is the record's", buryRecordsTheRoute},
	{"bury: nothing else", buryNothingElse},
	{"bury: one burial or take-over of 32 wins", buryRacesTakeOver},
	{"bury: an absent key is not found", buryOfAbsent},
}

func buryTheDead(c *check) {
	for _, tt := range []struct {
		effect   server.Effect
		to       server.State
		maybeRan bool
	}{
		{server.Opaque, server.StateUnknown, true},
		{server.Keyed, server.StatePoisoned, true},
		{server.Transactional, server.StatePoisoned, false},
	} {
		dead := c.claimDead(tt.effect)
		r := c.bury(grave(dead, tt.to))
		expect := dead
		expect.State, expect.Deaths, expect.MaybeRan = tt.to, 1, tt.maybeRan
		expect.Fence = r.Fence // may grow
		if diff := difference(r, expect); diff != "" {
			c.Errorf("buried record: %s", diff)
		}
		c.wantUnchanged(r)
	}
}

func buryRecordsTheRoute(c *check) {
	for _, effect := range []server.Effect{server.Transactional, server.Keyed, server.Opaque} {
		for _, route := range []string{"", "POST /charges"} {
			req := request(newID())
			req.Effect, req.Route, req.Lease = effect, "POST /orders", gone
			dead := c.claim(req)
			c.untilDead(dead.ID)
			burial := grave(dead, server.StatePoisoned)
			burial.Route = route
			expect := route
			if route == "" && effect == server.Opaque {
				expect = req.Route
			}
			want(c, "Route of a buried record", c.bury(burial).Route, expect)
			want(c, "Route, read", c.read(dead.ID).Route, expect)
		}
	}
}

func buryNothingElse(c *check) {
	for _, s := range everyState {
		if s.dead {
			continue
		}
		before := s.put(c)
		r, buried, err := c.store.Bury(c.Context(), grave(before, server.StateUnknown))
		c.must("Bury of a key "+s.name, err)
		want(c, "Bury of a key "+s.name, buried, false)
		if diff := difference(r, before); diff != "" {
			c.Errorf("Bury of a key %s: %s", s.name, diff)
		}
		c.wantUnchanged(before)
	}
	dead := c.claimDead(server.Opaque)
	req := request(dead.ID)
	req.Lease = gone
	c.takeOver(req, 1)
	before := c.untilDead(dead.ID)
	_, buried, err := c.store.Bury(c.Context(), grave(dead, server.StateUnknown))
	c.must("Bury", err)
	want(c, "Bury from a fence that has passed", buried, false)
	c.wantUnchanged(before)
}

func buryRacesTakeOver(c *check) {
	for range 10 {
		dead := c.claimDead(server.Keyed)
		var wins atomic.Int32
		together(32, func(i int) {
			var won bool
			var err error
			if i%2 == 0 {
				_, won, err = c.store.Bury(c.Context(), grave(dead, server.StatePoisoned))
			} else {
				_, won, err = c.store.TakeOver(c.Context(), request(dead.ID), 1)
			}
			if err != nil {
				c.Errorf("Bury or TakeOver: error = %v, want none", err)
			}
			if won {
				wins.Add(1)
			}
		})
		want(c, "winners", wins.Load(), 1)
		want(c, "Deaths", c.read(dead.ID).Deaths, 1)
	}
}

func buryOfAbsent(c *check) {
	_, buried, err := c.store.Bury(c.Context(), server.BuryRequest{ID: newID(), From: 1, To: server.StateUnknown})
	c.wantErr("Bury of an absent key", err, server.ErrNotFound)
	want(c, "Bury of an absent key", buried, false)
}
