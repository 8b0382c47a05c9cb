package sagatest

import (
	"slices"
	"testing"

	"github.com/fanonce/fanonce/saga/journal"
)

// TestJournal runs every rule as a parallel subtest, each on its own journal. open returns an
// empty journal and closes it by tb.Cleanup.
//
// The rules use only the methods of a journal. They read the time from its records and never
// compare it with their own clock. They wait for the end of a lease by asking the journal. All
// rules together take less than 10 seconds if a call takes a millisecond.
func TestJournal(t *testing.T, open func(tb testing.TB) journal.Journal) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.holds(&check{TB: t, journal: open(t)})
		})
	}
}

// A rule is one requirement of a journal, and the race or the fault that checks it. It reports by
// its check alone, so that a test can watch it fail.
type rule struct {
	name  string
	holds func(c *check)
}

var rules = slices.Concat(leaseRules, startRules, appendRules, claimRules, deferRules, changeRules, signalRules, listRules, sweepRules, contextRules)
