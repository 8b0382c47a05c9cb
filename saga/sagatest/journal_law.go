package sagatest

import (
	"slices"
	"testing"

	"github.com/fanonce/fanonce/saga"
)

// TestJournal runs every law as a parallel subtest, each on a journal of its
// own: open returns an empty one and leaves its closing to tb.Cleanup.
//
// The laws know a journal by its methods only: they read the time from its
// records, never compare it with their own clock, and wait for the end of a
// lease by asking the journal. All of them take less than 10 seconds with calls
// of a millisecond.
func TestJournal(t *testing.T, open func(tb testing.TB) saga.Journal) {
	t.Helper()
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.holds(&check{TB: t, journal: open(t)})
		})
	}
}

// A law is one thing that a journal must do, and the race or the fault that
// shows whether it does. It reports by its check alone, so that a test can
// watch it fail.
type law struct {
	name  string
	holds func(c *check)
}

var laws = slices.Concat(leaseLaws, startLaws, appendLaws, claimLaws, parkLaws, changeLaws, listLaws, sweepLaws, contextLaws)
