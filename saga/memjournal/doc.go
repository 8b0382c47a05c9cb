// Package memjournal is a journal.Journal in memory: for tests, and for programs whose sagas may
// end with their process. Make a journal with [New]. A [Reader] shows it to people.
// Of the audit log it keeps the youngest 10,000 entries, and up to 20,000.
//
// It passes sagatest.TestJournal, and that package compares other journals with it. Several
// engines can share one, as processes share a database.
package memjournal
