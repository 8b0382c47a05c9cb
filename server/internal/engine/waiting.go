package engine

// waiting counts the places of the calls that wait for a run, of all keys.
type waiting struct {
	all     room
	byScope map[string]room // a scope without places is not in it
}

// A room is a number of places, and the bytes of their bodies.
type room struct{ places, bytes int64 }

// holds reports whether one more place, with the given bytes, is within r.
func (r room) holds(used room, bytes int64) bool {
	return used.places < r.places && bytes <= r.bytes-used.bytes
}

// WaiterLimits is how many calls may wait, and with how many bytes.
type WaiterLimits struct {
	PerKey        int
	Places, Bytes int64 // of all keys
	LeastBytes    int64 // bytes that one scope may take, if they are free
}

// share is the part of c that one scope may take.
func (w WaiterLimits) share(scope string) room {
	return room{ShareOf(scope, w.Places, 1), ShareOf(scope, w.Bytes, w.LeastBytes)}
}

func (w *waiting) fits(scope string, bytes int64, most WaiterLimits) bool {
	return room{most.Places, most.Bytes}.holds(w.all, bytes) && most.share(scope).holds(w.byScope[scope], bytes)
}

// change adds places and bytes of a scope, or takes them away.
func (w *waiting) change(scope string, places, bytes int64) {
	if w.byScope == nil {
		w.byScope = make(map[string]room)
	}
	w.all.places += places
	w.all.bytes += bytes
	used := w.byScope[scope]
	used.places += places
	used.bytes += bytes
	w.byScope[scope] = used
	if used.places == 0 {
		delete(w.byScope, scope)
	}
}

// Unscoped is the scope of the callers of a guard that does not distinguish callers.
const Unscoped = "unscoped"

// ShareOf is the part of a common resource that one scope may take: a quarter, and at least the given minimum.
// Callers of an unscoped guard share all of it.
func ShareOf(scope string, all, least int64) int64 {
	if scope == Unscoped {
		return all
	}
	return min(all, max(all/4, least))
}
