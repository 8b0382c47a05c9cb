// Package journal says what a journal of sagas must do. Authors of a journal implement
// [Journal]. Users of package saga meet its [Record], [ID] and [Audit] when they look at
// sagas and move them.
//
// A journal is a store of records with leases. An engine renews its lease, claims the sagas of
// dead engines, and writes the results of its own sagas. Package pgjournal keeps
// them in Postgres, package memjournal in memory. sagatest.TestJournal checks a journal.
//
// A [Reader] shows sagas to people. sagatest.TestReader checks a reader.
//
// The package knows no engine, no client and no database.
package journal
