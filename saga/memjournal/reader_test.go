package memjournal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// In a bubble the window of a list without From is exact, and so is the lag of the sweep.
func TestReader_timesAreExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, engine := memjournal.New(), journal.EngineID{1}
		r := j.Reader()
		require.NoError(t, j.Heartbeat(t.Context(), engine, 2*time.Hour))
		_, _, err := j.Start(t.Context(), journal.StartRequest{ID: journal.ID{1}, Engine: engine})
		require.NoError(t, err)
		o := journal.Owner{ID: journal.ID{1}, Engine: engine, Fence: 1}
		require.NoError(t, j.Append(t.Context(), o, journal.Write{Revision: 2, Status: journal.Completed, Keep: journal.BrowseWindow}))
		all := func() int {
			t.Helper()
			found, err := r.Browse(t.Context(), journal.BrowseRequest{Limit: 10})
			require.NoError(t, err)
			return len(found)
		}
		time.Sleep(journal.BrowseWindow)
		require.Equal(t, 1, all(), "a saga that is as old as the window")
		time.Sleep(time.Nanosecond)
		require.Zero(t, all(), "a saga that is older than the window")
		e, err := r.Estimate(t.Context())
		require.NoError(t, err)
		require.Equal(t, journal.Estimate{Sagas: 1, SweepLag: time.Nanosecond}, e)
	})
}

func TestReader(t *testing.T) {
	t.Parallel()
	sagatest.TestReader(t, func(testing.TB) (journal.Journal, journal.Reader) {
		j := memjournal.New()
		return j, j.Reader()
	})
}
