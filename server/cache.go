package server

import (
	"container/list"
	"sync"
	"time"
)

// recordOverhead is what a cached record costs beside its answer: the record
// itself, its list element and its place in the map.
const recordOverhead = 512

// A cache keeps finished records of this process's store, the most recently
// used ones up to a number of bytes. Only completed and cancelled records are
// final: no request can change them, so that none needs to ask the store. It is
// safe for concurrent use; the nil cache is empty.
type cache struct {
	limit  int64
	maxAge time.Duration

	mu     sync.Mutex
	used   int64
	byID   map[ID]*list.Element
	recent list.List // of *cached, the most recently used first
}

type cached struct {
	record Record
	at     time.Time // this process's clock when record was read, monotonic
	size   int64
}

// newCache returns nil for a limit of zero.
func newCache(limit int64, maxAge time.Duration) *cache {
	if limit == 0 {
		return nil
	}
	return &cache{limit: limit, maxAge: maxAge, byID: make(map[ID]*list.Element)}
}

// get returns the record as the store would show it now: its clock has moved on
// by the time that it has been here.
func (c *cache) get(id ID) (Record, bool) {
	if c == nil {
		return Record{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return Record{}, false
	}
	hit := e.Value.(*cached) //nolint:errcheck // nothing else is in the list
	age := time.Since(hit.at)
	rec := hit.record
	rec.Now = rec.Now.Add(age)
	if age >= c.maxAge || !rec.Now.Before(rec.ExpiresAt) { // past it the sweep may have made room for a new run
		c.remove(e)
		return Record{}, false
	}
	c.recent.MoveToFront(e)
	return rec, true
}

// put keeps rec if it is final and small enough. An older entry of the key
// makes room for it: the newer read has the younger clock.
func (c *cache) put(rec *Record) {
	if c == nil || !rec.final() {
		return
	}
	entry := &cached{record: *rec, at: time.Now(), size: recordOverhead + int64(len(rec.Answer.Envelope))}
	if entry.size > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[rec.ID]; ok {
		c.remove(e)
	}
	c.byID[rec.ID] = c.recent.PushFront(entry)
	for c.used += entry.size; c.used > c.limit; {
		c.remove(c.recent.Back())
	}
}

// drop forgets a key whose record this process deleted.
func (c *cache) drop(id ID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok {
		c.remove(e)
	}
}

func (c *cache) remove(e *list.Element) {
	gone := c.recent.Remove(e).(*cached) //nolint:errcheck // nothing else is in the list
	delete(c.byID, gone.record.ID)
	c.used -= gone.size
}

// recall answers a call from the cache; false if that knows nothing of its key.
func (g *Guard) recall(c *call) (outcome, bool) {
	rec, ok := g.cache.get(c.id)
	if !ok {
		return outcome{}, false
	}
	g.observe(Event{Kind: EventCacheHit, Route: c.route.Name, ID: c.id})
	out := g.answered(c, decide(&rec, c.fingerprintFor(&rec), g.cfg.MaxDeaths), &rec)
	out.asked = true
	return out, true
}

// final reports whether no request can change the record any more.
func (r *Record) final() bool { return r.State == StateCompleted || r.State == StateCancelled }
