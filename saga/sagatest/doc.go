// Package sagatest is for tests of sagas, and of journals.
//
// [Explore] runs your saga many times. It tries each outcome of each call, kills or pauses a
// process at each point, and delivers every request twice. It checks that everything that
// happened is finished or undone. Time is virtual, so this takes seconds.
//
// [Services] are callees in memory for tests of single cases. [TestJournal] is the conformance
// suite for every journal.Journal, and [TestReader] that for every journal.Reader.
package sagatest
