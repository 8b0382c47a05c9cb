// Package memjournal is a saga.Journal in memory: for tests, and for programs
// whose sagas may end with their process. Make one with [New].
//
// It passes sagatest.TestJournal, and is what that package compares journals
// with. Several engines can share one, as processes share a database.
package memjournal
