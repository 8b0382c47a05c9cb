package redisstore_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// A silentNet passes connections on to a server. Those that are there when it is cut are lost without a word: bytes of
// either side go nowhere, and nobody is told.
type silentNet struct {
	net.Listener
	cuts  atomic.Int64
	conns sync.WaitGroup
}

func newSilentNet(t *testing.T, server string) *silentNet {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &silentNet{Listener: listener}
	n.conns.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			born := n.cuts.Load()
			n.conns.Go(func() { n.pass(far, near, born) })
			n.conns.Go(func() { n.pass(near, far, born) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		n.conns.Wait()
	})
	return n
}

// pass copies from one side to the other, and ends with the connection.
func (n *silentNet) pass(to, from net.Conn, born int64) {
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		size, err := from.Read(b)
		if err != nil {
			return
		}
		if n.cuts.Load() == born {
			_, _ = to.Write(b[:size])
		}
	}
}

// However many idle connections are lost without a word, the callers behind them do not wait for the timeouts.
func TestStore_stalledConnections(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, tt := range []struct {
		name    string
		before  int // claims at once, and so connections
		callers int // afterwards: fewer than open a further pipeline by their number alone
	}{{"one connection", 1, 7}, {"all connections", 256, 400}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			network := newSilentNet(t, srv.Addr())
			s := open(t, redisstore.Config{}, network.Addr().String())
			claimAtOnce(t, s, tt.before)
			network.cuts.Add(1)

			// A lost connection loses the calls that were sent on it. Those that come later find another one.
			var served atomic.Bool
			var callers sync.WaitGroup
			began := time.Now()
			for i := 0; !served.Load() && time.Since(began) < 10*time.Second; i++ {
				if i < tt.callers {
					callers.Go(func() {
						if _, won, err := s.Claim(t.Context(), request(store.Keyed)); err == nil && won {
							served.Store(true)
						}
					})
				}
				time.Sleep(20 * time.Millisecond)
			}
			require.Less(t, time.Since(began), 2*time.Second, "a read times out after three seconds")
			callers.Wait()
		})
	}
}

// claimAtOnce makes so many claims at the same time.
func claimAtOnce(t *testing.T, s *redisstore.Store, n int) {
	t.Helper()
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			if _, won, err := s.Claim(t.Context(), request(store.Keyed)); err != nil || !won {
				t.Errorf("claim = %v, %v", won, err)
			}
		})
	}
	callers.Wait()
}
