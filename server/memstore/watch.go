package memstore

import (
	"slices"

	"github.com/fanonce/fanonce/server/store"
)

var _ store.WatchStore = (*Store)(nil)

// A watcher waits for the end of one run. Store.mu guards it.
type watcher struct {
	fence int64
	ended chan struct{}
}

// Watch implements [store.WatchStore].
func (s *Store) Watch(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{fence: fence, ended: make(chan struct{})}
	if r, ok := s.records[id]; !ok || !runs(r, fence) {
		close(w.ended)
		return w.ended, func() {}
	}
	s.watchers[id] = append(s.watchers[id], w)
	return w.ended, func() { s.unwatch(id, w) }
}

func (s *Store) unwatch(id store.ID, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepWatchers(id, func(other *watcher) bool { return other != w })
}

// put stores r. Every change of a record goes through put or remove, so that no
// watcher waits for a run that has ended. s.mu is held.
func (s *Store) put(r store.Record) {
	s.records[r.ID] = r
	s.tell(r.ID, func(w *watcher) bool { return runs(r, w.fence) })
}

// remove deletes the record. s.mu is held.
func (s *Store) remove(id store.ID) {
	delete(s.records, id)
	delete(s.dead, id)
	s.tell(id, func(*watcher) bool { return false })
}

// tell wakes the watchers of a run that has ended.
func (s *Store) tell(id store.ID, goesOn func(*watcher) bool) {
	s.keepWatchers(id, func(w *watcher) bool {
		if goesOn(w) {
			return true
		}
		close(w.ended)
		return false
	})
}

func (s *Store) keepWatchers(id store.ID, keep func(*watcher) bool) {
	left := slices.DeleteFunc(s.watchers[id], func(w *watcher) bool { return !keep(w) })
	if len(left) == 0 {
		delete(s.watchers, id)
		return
	}
	s.watchers[id] = left
}

// runs reports that the run with this fence goes on, as far as the record shows.
func runs(r store.Record, fence int64) bool {
	return r.State == store.StateInProgress && r.Fence == fence
}
