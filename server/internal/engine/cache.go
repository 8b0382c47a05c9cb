package engine

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// recordOverhead is the memory of a cached record beside its answer: the record
// itself, its list element and its place in the map.
const recordOverhead = 512

// cacheFor is how long a cached record is used.
const cacheFor = time.Minute

// A cache keeps finished records of this process's store, the most recently
// used ones up to a number of bytes. Only completed and cancelled records are
// final: no request can change them, so no request needs to ask the store. It
// is safe for concurrent use; the nil cache is empty.
type cache struct {
	limit int64

	mu     sync.Mutex
	drops  uint64 // calls of drop
	used   int64
	byID   map[store.ID]*list.Element
	recent list.List // of *cached, the most recently used first
}

type cached struct {
	record store.Record
	at     time.Time // this process's clock when record was read, monotonic
	size   int64
}

// newCache returns nil for a limit of zero.
func newCache(limit int64) *cache {
	if limit == 0 {
		return nil
	}
	return &cache{limit: limit, byID: make(map[store.ID]*list.Element)}
}

// get returns the record as the store would show it now: get moves the record's
// clock on by the time that it was in the cache.
func (c *cache) get(id store.ID) (store.Record, bool) {
	if c == nil {
		return store.Record{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok {
		return store.Record{}, false
	}
	hit := e.Value.(*cached) //nolint:errcheck // nothing else is in the list
	age := time.Since(hit.at)
	rec := hit.record
	rec.Now = rec.Now.Add(age)
	if age >= cacheFor || !rec.Now.Before(rec.ExpiresAt) { // past it the sweep may have made room for a new run
		c.remove(e)
		return store.Record{}, false
	}
	c.recent.MoveToFront(e)
	return rec, true
}

// mark returns the present moment, for a later put of what the store is asked for now.
func (c *cache) mark() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

// put keeps rec if it is final and small enough. It replaces an older entry of
// the key: the newer read has the later clock.
//
// since is the mark from before the store was asked. If this process dropped a key meanwhile, rec is not kept: an undo
// may have ended it. That another key was dropped costs one more question to the store.
func (c *cache) put(rec *store.Record, since uint64) {
	if c == nil || !isFinal(rec) {
		return
	}
	entry := &cached{record: *rec, at: time.Now(), size: recordOverhead + int64(len(rec.Answer.Envelope))}
	if entry.size > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops != since {
		return
	}
	if e, ok := c.byID[rec.ID]; ok {
		c.remove(e)
	}
	c.byID[rec.ID] = c.recent.PushFront(entry)
	for c.used += entry.size; c.used > c.limit; {
		c.remove(c.recent.Back())
	}
}

// drop forgets a key whose record this process deleted, or undid.
func (c *cache) drop(id store.ID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	if e, ok := c.byID[id]; ok {
		c.remove(e)
	}
}

func (c *cache) remove(e *list.Element) {
	gone := c.recent.Remove(e).(*cached) //nolint:errcheck // nothing else is in the list
	delete(c.byID, gone.record.ID)
	c.used -= gone.size
}

// recall answers a call from the cache; false if the cache does not have the key.
func (e *Engine) recall(ctx context.Context, c *Call) (Outcome, bool) {
	rec, ok := e.cache.get(c.ID)
	if !ok {
		return Outcome{}, false
	}
	e.observe(ctx, store.Event{Kind: store.EventCacheHit, Route: c.Route.Name, ID: c.ID})
	out := e.toOutcome(ctx, c, decide(&rec, e.fingerprintFor(c, &rec), e.cfg.MaxRecoveryAttempts), &rec)
	out.Asked = true
	return out, true
}

// isFinal reports whether no request can change the record any more.
func isFinal(r *store.Record) bool {
	return r.State == store.StateCompleted || r.State == store.StateCancelled
}
