package server

import "sync"

// shareOf is how much of a common resource one scope may take: a quarter, and at least
// so much. Callers of an unscoped guard share all of it.
func shareOf(scope string, all, least int64) int64 {
	if scope == unscoped {
		return all
	}
	return min(all, max(all/4, least))
}

// A budget is a number of bytes that the requests of all scopes share. Its zero value
// has no bytes.
type budget struct {
	most  int64 // for all scopes together
	least int64 // that a scope may take, unless others took it

	mu      sync.Mutex
	used    int64
	byScope map[string]int64 // a scope that uses none is not in it
}

// take reports whether scope may use n bytes more, and notes them.
func (b *budget) take(scope string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.most-b.used || n > shareOf(scope, b.most, b.least)-b.byScope[scope] {
		return false
	}
	if b.byScope == nil {
		b.byScope = make(map[string]int64)
	}
	b.used += n
	b.byScope[scope] += n
	return true
}

// give returns n bytes that scope took.
func (b *budget) give(scope string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.byScope[scope] -= n; b.byScope[scope] == 0 {
		delete(b.byScope, scope)
	}
}
