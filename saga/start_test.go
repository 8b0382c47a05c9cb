package saga_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

// Until its first write a saga looks to every start of its own process as if that
// had begun it.
func TestStart_besideAnother(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		s.services.Script("inventory.reserve", sagatest.Slow(time.Second))
		s.services.Script("payment.charge", sagatest.Slow(time.Second))
		e := s.open(checkout)
		_, err := checkout.Start(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), order{SKU: "another"})
		require.ErrorIs(s, err, saga.ErrKeyReused)
		_, err = checkout.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		s.events.mu.Lock()
		defer s.events.mu.Unlock()
		require.Len(s, s.events.moves, 2, "started and completed, once each")
	})
}
