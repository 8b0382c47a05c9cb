package servertest

import "github.com/fanonce/fanonce/server"

// A situation is one of the ways in which a key can stand, and how it gets
// there.
type situation struct {
	name string
	put  func(c *check) server.Record
	// Of the key in this situation:
	cancellable bool
	dead        bool // its owner is found out by whoever moves it
}

var everyState = []situation{
	{name: "in progress", put: (*check).claimNew},
	{name: "with a dead transactional owner", put: died(server.Transactional), cancellable: true, dead: true},
	{name: "with a dead keyed owner", put: died(server.Keyed), cancellable: true, dead: true},
	{name: "with a dead opaque owner", put: died(server.Opaque), cancellable: true, dead: true},
	{name: "with an owner that counts as dead", put: ended(death), cancellable: true, dead: true},
	{name: "completed", put: ended(completion(200, "ok"))},
	{name: "released", put: ended(release), cancellable: true},
	{name: "released after it may have run", put: ended(server.Settlement{State: server.StateReleased, MaybeRan: true}), cancellable: true},
	{name: "unknown", put: ended(giveUp), cancellable: true},
	{name: "poisoned", put: poisoned, cancellable: true},
	{name: "cancelled", put: cancelledFirst},
	{name: "cancelled after a release", put: cancelledLater},
}

func died(effect server.Effect) func(c *check) server.Record {
	return func(c *check) server.Record {
		r := c.claimDead(effect)
		return c.read(r.ID)
	}
}

func ended(s server.Settlement) func(c *check) server.Record {
	return func(c *check) server.Record {
		r := c.claimNew()
		c.settle(owner(r), s)
		return c.read(r.ID)
	}
}

func poisoned(c *check) server.Record {
	r := c.claimDead(server.Keyed)
	return c.bury(grave(r, server.StatePoisoned))
}

func cancelledFirst(c *check) server.Record {
	id := newID()
	c.cancel(id)
	return c.read(id)
}

func cancelledLater(c *check) server.Record {
	r := c.claimNew()
	c.settle(owner(r), release)
	c.cancel(r.ID)
	return c.read(r.ID)
}
