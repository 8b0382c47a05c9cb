package redisstore_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// A replica is promoted while callers still write to the old primary, as in a partition. With Replicas 1 the new primary
// has every claim that was acknowledged. Without it, claims are lost, which shows that the test would notice.
func TestStore_promotedReplicaHasAcknowledgedClaims(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		cfg   redisstore.Config
		loses bool
	}{
		{"confirmed by the replica", redisstore.Config{Replicas: 1, WaitTimeout: 100 * time.Millisecond}, false},
		{"not confirmed", redisstore.Config{AllowNonDurable: true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t)
			replica := redistest.Start(t, "--replicaof", "127.0.0.1", port(primary))
			tt.cfg.Prefix = "failover"
			s := openWithin(t, outage, tt.cfg, primary.Addr())
			acknowledged := claimDuring(t, s, func() {
				client := replica.Client()
				defer client.Close()
				require.NoError(t, client.ReplicaOf(t.Context(), "no", "one").Err())
			})
			promoted := open(t, redisstore.Config{Prefix: tt.cfg.Prefix}, replica.Addr())
			lost := 0
			for _, id := range acknowledged {
				if _, err := promoted.Read(t.Context(), id); err != nil {
					require.True(t, isNotFound(err), "%v", err)
					lost++
				}
			}
			require.NotEmpty(t, acknowledged)
			require.Equal(t, tt.loses, lost > 0, "%d of %d acknowledged claims are lost", lost, len(acknowledged))
		})
	}
}

// claimDuring calls fault while callers claim keys, and returns the keys whose claims were acknowledged. The callers go
// on until fault has returned and at least 50 more calls have ended.
func claimDuring(t *testing.T, s *redisstore.Store, fault func()) (acknowledged []store.ID) {
	t.Helper()
	const callers, before, after = 16, 200, 50
	var mu sync.Mutex
	var calls atomic.Int64
	var end atomic.Int64
	end.Store(1 << 62)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ; calls.Load() < end.Load(); calls.Add(1) {
				req := request(store.Keyed)
				if _, won, err := s.Claim(t.Context(), req); err == nil && won {
					mu.Lock()
					acknowledged = append(acknowledged, req.ID)
					mu.Unlock()
				}
			}
		})
	}
	eventually(t, "claims are acknowledged", func() bool { return calls.Load() >= before })
	fault()
	end.Store(calls.Load() + after)
	wg.Wait()
	return acknowledged
}
