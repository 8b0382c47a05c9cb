// Package store is for authors of a store: it defines the records that a guard keeps, and how a [Store] must change
// them. Packages memstore and pgstore are stores.
//
// Implement [Store]. Implement [TxStore] if a handler's effects can be in the store's database. Implement
// [WatchStore] if the store can tell when a run ends, and [PartitionStore] if it keeps answers in partitions. Package
// servertest checks all of this.
//
// Users of a guard need [ID], [Record] and [ListRequest] for keys that need a person.
// Package server has aliases of the names that handlers use.
//
// The package is independent of HTTP and of databases. It imports no other part of the callee.
package store
