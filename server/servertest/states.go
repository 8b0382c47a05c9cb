package servertest

import (
	"github.com/fanonce/fanonce/server/store"
)

// A situation is one of the states of a key, and the calls that lead to it.
type situation struct {
	name string
	put  func(c *check) store.Record
	// These fields describe the key in this situation.
	cancellable bool
	dead        bool // the next call that moves it counts the owner's death
}

var everyState = []situation{
	{name: "in progress", put: (*check).claimNew},
	{name: "with a dead transactional owner", put: putDead(store.Transactional), cancellable: true, dead: true},
	{name: "with a dead keyed owner", put: putDead(store.Keyed), cancellable: true, dead: true},
	{name: "with a dead opaque owner", put: putDead(store.Opaque), cancellable: true, dead: true},
	{name: "with an owner that counts as dead", put: putSettled(death), cancellable: true, dead: true},
	{name: "completed", put: putSettled(completion(200, "ok"))},
	{name: "released", put: putSettled(release), cancellable: true},
	{name: "released after it may have run", put: putSettled(store.Settlement{State: store.StateReleased, MaybeRan: true}), cancellable: true},
	{name: "unknown", put: putSettled(giveUp), cancellable: true},
	{name: "quarantined", put: putQuarantined, cancellable: true},
	{name: "cancelled", put: putCancelledFirst},
	{name: "cancelled after a release", put: putCancelledLater},
}

func putDead(effect store.Effect) func(c *check) store.Record {
	return func(c *check) store.Record {
		r := c.claimDead(effect)
		return c.read(r.ID)
	}
}

func putSettled(s store.Settlement) func(c *check) store.Record {
	return func(c *check) store.Record {
		r := c.claimNew()
		c.settle(owner(r), s)
		return c.read(r.ID)
	}
}

func putQuarantined(c *check) store.Record {
	r := c.claimDead(store.Keyed)
	return c.quarantine(grave(r, store.StateQuarantined))
}

func putCancelledFirst(c *check) store.Record {
	id := newID()
	c.cancel(id)
	return c.read(id)
}

func putCancelledLater(c *check) store.Record {
	r := c.claimNew()
	c.settle(owner(r), release)
	c.cancel(r.ID)
	return c.read(r.ID)
}
