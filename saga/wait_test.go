package saga_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// A caller that waits for a saga of another process reads the journal. It accepts two failed
// reads in succession. The third one detaches it.
func TestRun_journalAwayWhileItWaits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fails func(n int) bool
		want  error
	}{
		{"now and then", func(n int) bool { return n%3 != 0 }, nil},
		{"for good", func(n int) bool { return n > 2 }, saga.ErrDetached},
	} {
		inBubble(t, func(s *stage) {
			s.services.Script("inventory.reserve", sagatest.Slow(20*time.Second))
			_, err := checkout.Start(s.Context(), s.open(checkout), key(s.T, "k"), basket)
			require.NoError(s, err)
			j := tap(s.journal)
			j.before = func(method string, n int) error {
				if method == "Read" && tt.fails(n) {
					return errNoNetwork
				}
				return nil
			}
			begun := time.Now()
			_, err = checkout.Run(s.Context(), s.openOn(j, checkout), key(s.T, "k"), basket)
			if tt.want == nil {
				require.NoError(s, err, tt.name)
				return
			}
			require.ErrorIs(s, err, tt.want, tt.name)
			require.ErrorIs(s, err, errNoNetwork, "why")
			require.Equal(s, 5, j.count("Read"))
			require.Less(s, time.Since(begun), 5*time.Second)
			s.until("k", journal.Completed)
		})
	}
}
