// Package memstore keeps a guard's records in memory: for tests, for trying
// things out, and for demos without a database.
//
// Start with [New], and give the store to server.NewGuard. Handlers of
// Transactional routes write through [Tx], completion hooks of Keyed routes
// too.
//
// What memory cannot promise: the records belong to this one process, so a
// second replica knows nothing of them, and they are gone when it exits, so a
// retry that arrives after a restart runs again. In production use a store
// that is durable and shared.
//
// Otherwise it keeps the whole law of servertest, waits included, and it works
// inside a testing/synctest bubble. The package knows nothing of HTTP and holds
// no goroutine.
package memstore
