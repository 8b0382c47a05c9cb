// Package sagatest is for tests of sagas, and of journals.
//
// [Explore] runs a saga of yours again and again: with each outcome of each
// call, with a process killed or paused at each point, with every request
// delivered twice; it checks that whatever happened is finished or undone, and
// takes seconds, since time is virtual.
//
// [Services] are callees in memory for tests of single cases. [TestJournal] is
// the law for every saga.Journal.
package sagatest
