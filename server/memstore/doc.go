// Package memstore keeps a guard's records in memory: for tests, first trials, and demos
// without a database.
//
// Start with [New], and pass the store to server.NewGuard. Transactional handlers and the
// completion hooks of Keyed handlers write through [Tx]. Of the audit log the youngest 10,000
// entries stay, and up to 20,000.
//
// The records belong to one process, and are gone when it exits. A second replica does not see
// them, and a retry after a restart runs again. In production use a store that is durable and
// shared.
//
// Otherwise the package passes the conformance suite of servertest, waits included. It works
// inside a testing/synctest bubble. It is independent of HTTP and starts no goroutine.
package memstore
