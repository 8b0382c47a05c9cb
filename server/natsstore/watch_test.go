package natsstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

// A waiter in another process hears of the end, with a subscription and without.
func TestWatch_anotherProcess(t *testing.T) {
	t.Parallel()
	servers := natstest.Start(t, natstest.Config{})
	s := newStore(t, servers.Connect(t), 1)
	for _, poll := range []bool{false, true} {
		other := reopen(t, s, servers.Connect(t))
		if poll {
			natsstore.PollOnly(other)
		}
		r := claimed(t, s, false)
		ended, stop := other.Watch(r.ID, r.Fence)
		select {
		case <-ended:
			t.Fatal("told of the end of a run that goes on")
		case <-time.After(50 * time.Millisecond): // it may be slow to subscribe, which only costs time
		}
		require.NoError(t, s.Settle(t.Context(), owner(r), done))
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("not told")
		}
		stop()
	}
}

// Many waiters of many runs leave nothing behind.
func TestWatch_leavesNothing(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	s := newStore(t, conn, 1)
	var wg sync.WaitGroup
	for range 20 {
		r := claimed(t, s, false)
		for i := range 4 {
			ended, stop := s.Watch(r.ID, r.Fence)
			if i == 0 {
				wg.Go(func() { stop(); stop() })
				continue
			}
			wg.Go(func() { <-ended; stop() })
		}
		require.NoError(t, s.Settle(t.Context(), owner(r), done))
	}
	wg.Wait()
	require.Eventually(t, func() bool { return natsstore.Waits(s) == 0 && conn.NumSubscriptions() <= 1 }, 30*time.Second, 10*time.Millisecond)
}
