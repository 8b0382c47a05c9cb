package redisstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

func TestStore_cluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	servertest.TestStore(t, func(tb testing.TB) store.Store {
		return open(tb, redisstore.Config{Replicas: 1}, cluster.Addrs()...)
	})
}

// A primary is killed in the middle of the rules, and its replica takes its place. The kill waits until no call is on
// its way and the replica has every write, because no rule allows for an unknown fate. The calls that follow meet the
// outage. failover_test.go has a failover in the middle of calls.
func TestStore_clusterLosesAPrimary(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	var calls sync.RWMutex
	var made, repeated atomic.Int64
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for made.Load() < 1500 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		calls.Lock()
		defer calls.Unlock()
		client := cluster.Nodes[0].Client()
		defer client.Close()
		if n, err := client.Wait(t.Context(), 1, 10*time.Second).Result(); err != nil || n < 1 {
			t.Errorf("WAIT = %d, %v", n, err)
		}
		if err := cluster.Nodes[0].Kill(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("law", func(t *testing.T) {
		servertest.TestStore(t, func(tb testing.TB) store.Store {
			s := openWithin(tb, outage, redisstore.Config{AllowNonDurable: true}, cluster.Addrs()...)
			return &patient{s, &calls, &made, &repeated}
		})
	})
	<-killed
	require.True(t, cluster.Nodes[3].IsPrimary(context.WithoutCancel(t.Context())), "the replica was not promoted")
	require.Positive(t, repeated.Load(), "no call met the outage")
	t.Logf("%d calls, of which %d met the outage", made.Load(), repeated.Load())
}
