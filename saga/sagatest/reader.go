package sagatest

import (
	"slices"
	"testing"

	"github.com/fanonce/fanonce/saga/journal"
)

// TestReader runs every rule of a [journal.Reader] as a parallel subtest, each on its own journal.
// open returns an empty journal and a reader of it, and closes both by tb.Cleanup. The reader has all
// rights and indexes. TestReader reads the time as [TestJournal] does.
func TestReader(t *testing.T, open func(tb testing.TB) (journal.Journal, journal.Reader)) {
	t.Helper()
	for _, r := range readerRules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			j, reader := open(t)
			r.holds(&check{TB: t, journal: j, reader: reader})
		})
	}
}

var readerRules = slices.Concat(showRules, browseRules, readerAuditRules)
