package pgstore

import (
	"maps"
	"sync"
)

// undropped are the partitions that this process detached and did not drop yet: where
// a view keeps one, nothing but this tells what it was, if it has a name of its own.
// It is safe for concurrent use.
type undropped struct {
	mu     sync.Mutex
	tables map[uint32]table // by oid
}

func (u *undropped) remember(t table) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tables == nil {
		u.tables = make(map[uint32]table)
	}
	u.tables[t.oid] = t
}

func (u *undropped) forget(t table) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tables, t.oid)
}

// all returns a copy.
func (u *undropped) all() map[uint32]table {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.tables)
}
