package servertest

import (
	"slices"

	"github.com/fanonce/fanonce/server"
)

var renewLaws = []law{
	{"renew: owners keep their keys, the others are named", renewNamesTheLost},
	{"renew: who is late but was not taken over still owns the key", renewOfLateOwner},
	{"renew: a renewed key is not taken over", renewKeepsOthersOut},
	{"renew: nobody is nobody", renewOfNobody},
}

func renewNamesTheLost(c *check) {
	alive := c.claimNew()
	var owners, lost []server.Owner
	lose := func(o server.Owner) {
		owners, lost = append(owners, o), append(lost, o)
	}
	lose(server.Owner{ID: newID(), Token: newToken(), Fence: 1}) // swept, or never there
	owners = append(owners, owner(alive))
	for _, s := range everyState {
		if r := s.put(c); r.State != server.StateInProgress {
			lose(owner(r))
		}
	}
	dead := c.claimDead(server.Keyed)
	next := c.takeOver(request(dead.ID), 1)
	lose(owner(dead))
	lose(server.Owner{ID: next.ID, Token: next.Token, Fence: 1})
	lose(server.Owner{ID: next.ID, Token: newToken(), Fence: 2})

	got, err := c.store.Renew(c.Context(), owners, 2*long)
	c.must("Renew", err)
	for _, o := range lost {
		if !slices.Contains(got, o) {
			c.Errorf("Renew did not name %v with fence %d as lost; record: %s", o.ID, o.Fence, c.describe(o.ID))
		}
	}
	want(c, "owners lost", len(got), len(lost))
	renewed := c.read(alive.ID)
	if left := renewed.LeaseLeft(); left <= long {
		c.Errorf("lease left of the owner = %v, want more than %v", left, long)
	}
	c.wantUnchanged(next)
}

func (c *check) describe(id server.ID) string {
	r, err := c.store.Read(c.Context(), id)
	if err != nil {
		return err.Error()
	}
	return describe(r)
}

func renewOfLateOwner(c *check) {
	late := c.claimDead(server.Keyed)
	lost, err := c.store.Renew(c.Context(), []server.Owner{owner(late)}, long)
	c.must("Renew", err)
	want(c, "owners lost", len(lost), 0)
	r := c.read(late.ID)
	if r.LeaseLeft() <= 0 {
		c.Errorf("lease left = %v, want some", r.LeaseLeft())
	}
	want(c, "fence", r.Fence, 1)
	want(c, "Deaths", r.Deaths, 0)
}

func renewKeepsOthersOut(c *check) {
	late := c.claimDead(server.Keyed)
	for range 20 {
		// Either may come first; both must not win.
		var lost []server.Owner
		var taken bool
		var renewErr, takeErr error
		together(2, func(i int) {
			if i == 0 {
				lost, renewErr = c.store.Renew(c.Context(), []server.Owner{owner(late)}, long)
			} else {
				_, taken, takeErr = c.store.TakeOver(c.Context(), request(late.ID), 1)
			}
		})
		c.must("Renew", renewErr)
		c.must("TakeOver", takeErr)
		if taken != (len(lost) == 1) {
			c.Fatalf("taken over = %v while the renewal lost %d owners, want one winner", taken, len(lost))
		}
		late = c.claimDead(server.Keyed)
	}
}

func renewOfNobody(c *check) {
	lost, err := c.store.Renew(c.Context(), nil, long)
	c.must("Renew of nobody", err)
	want(c, "owners lost", len(lost), 0)
}
