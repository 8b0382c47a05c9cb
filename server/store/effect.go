package store

// An Effect says where a route's effects go. It decides what follows when a run fails or its process dies.
// server.Effect has the table of what is stored.
type Effect uint8

const (
	// Transactional means that every effect is in the store's own database, in
	// the transaction that the handler gets. A run that fails or dies leaves no
	// effect, and the next call runs.
	Transactional Effect = iota + 1
	// Keyed means that effects outside the store's database go through calls
	// with child keys, which the next hops deduplicate. The next call after a
	// failure or a death runs again and converges.
	Keyed
	// Opaque means any other effect. After a death, a panic or a 5xx the outcome is unknown: the key is
	// outcome-unknown. It runs again only after a decision (server.Guard.Resolve, or Reconcile of the server.Route).
	// A handler decides it by itself with Release, or with a status that releases the key.
	Opaque
)

// String returns the name of the class, in lower case.
func (e Effect) String() string {
	switch e {
	case Transactional:
		return "transactional"
	case Keyed:
		return "keyed"
	case Opaque:
		return "opaque"
	default:
		return "undeclared"
	}
}
