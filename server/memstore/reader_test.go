package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// In a bubble times are exact, and so is the time for which a record has waited for the sweep.
func TestReader_estimate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		read := s.Reader()
		e, err := read.Estimate(t.Context())
		require.NoError(t, err)
		require.Equal(t, store.Estimate{ByState: map[store.State]int{}}, e)

		require.NoError(t, s.Settle(t.Context(), claim(t, s, request(1, 1)), completed))
		time.Sleep(time.Minute)
		claim(t, s, request(2, 1)) // its lease ends after 30 s
		time.Sleep(time.Minute)
		claim(t, s, request(3, 1))
		e, err = read.Estimate(t.Context())
		require.NoError(t, err)
		require.Equal(t, store.Estimate{
			Records: 3, Young: 3, OldestInProgress: time.Minute,
			ByState: map[store.State]int{store.StateCompleted: 1, store.StateInProgress: 2},
		}, e)

		time.Sleep(time.Hour) // the first was to be swept an hour after its claim
		e, err = read.Estimate(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*time.Minute, e.SweepLag)
	})
}
