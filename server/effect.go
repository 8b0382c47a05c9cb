package server

// An Effect says where a route's effects go, and with it what follows when a
// run fails or its process dies. Every route declares one; there is no
// default.
type Effect uint8

const (
	// Transactional means that every effect is in the store's own database, in
	// the transaction that the handler gets. A run that fails or dies leaves
	// nothing, and the next call runs.
	Transactional Effect = iota + 1
	// Keyed means that effects outside go through calls with child keys, which
	// the next hops deduplicate. The next call after a failure or a death runs
	// again and converges.
	Keyed
	// Opaque means anything else. After a death nobody knows; the key stays
	// outcome-unknown and never runs again by itself.
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
