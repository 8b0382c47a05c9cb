package natsstore

import (
	"sync"

	"github.com/fanonce/fanonce/server/store"
)

// mostRuns bounds the memory of runs that never settle here.
const mostRuns = 1 << 16

// runs remembers the entries of this process's own runs, as it wrote them last. A renewal or a settlement then needs
// no read: its compare-and-set fails if the memory is out of date.
type runs struct {
	mu      sync.Mutex
	entries map[store.ID]entry
}

// of returns the entry of o's run, or nil.
func (r *runs) of(o store.Owner) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[o.ID]
	if !ok || !e.ownedBy(o) {
		return nil
	}
	return &e
}

// note remembers e if it is a run, and forgets the key's run otherwise.
func (r *runs) note(e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !e.exists() || e.State != store.StateInProgress {
		delete(r.entries, e.ID)
		return
	}
	if old, ok := r.entries[e.ID]; ok && old.rev > e.rev {
		return
	}
	if len(r.entries) >= mostRuns {
		for id := range r.entries {
			delete(r.entries, id)
			break
		}
	}
	r.entries[e.ID] = e
}
