package natsstore_test

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

var (
	buckets atomic.Int64
	kills   = flag.Int("natsstore.kills", 3, "how many servers the law's cluster loses, one after the other")
)

// newStore opens a store on a bucket of its own.
func newStore(tb testing.TB, conn *nats.Conn, replicas int) *natsstore.Store {
	tb.Helper()
	cfg := natsstore.Config{
		Bucket: fmt.Sprintf("b%d", buckets.Add(1)), Replicas: replicas, Durability: natsstore.FlushPeriodically, Timeout: time.Minute,
	}
	var s *natsstore.Store
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // a killed server must be back first
		err := natsstore.Create(tb.Context(), conn, cfg)
		if err == nil {
			err = complete(tb.Context(), conn, cfg)
		}
		if err == nil {
			s, err = natsstore.Open(tb.Context(), conn, cfg)
		}
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		s.Close()
		_, _ = conn.Request("$JS.API.STREAM.DELETE.KV_"+cfg.Bucket, nil, 5*time.Second) // the servers have less to do
	})
	return s
}

// complete returns an error until each server has its replica of the bucket. A bucket is made before its servers fail: if
// one of them is killed while it is made, it can be without a leader for minutes.
func complete(ctx context.Context, conn *nats.Conn, cfg natsstore.Config) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, "KV_"+cfg.Bucket)
	if err != nil {
		return err
	}
	if cfg.Replicas == 1 {
		return nil
	}
	others := s.CachedInfo().Cluster.Replicas // than the leader's
	if len(others) != cfg.Replicas-1 {
		return fmt.Errorf("%d replicas beside the leader's", len(others))
	}
	for _, r := range others {
		if r.Offline || !r.Current {
			return fmt.Errorf("the replica on %s is not current", r.Name)
		}
	}
	return nil
}

func TestStore(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	servertest.TestStore(t, func(tb testing.TB) store.Store { return newStore(tb, conn, 1) })
}

// The law holds on a cluster, while its servers are killed one after the other, and restarted.
func TestStore_clusterUnderKills(t *testing.T) {
	servers := natstest.Start(t, natstest.Config{Nodes: 3})
	conn := servers.Connect(t)
	done, ended := make(chan struct{}), make(chan int)
	go func() { ended <- killInTurn(t, servers, done) }()
	t.Run("law", func(t *testing.T) {
		servertest.TestStore(t, func(tb testing.TB) store.Store { return caughtUp{newStore(tb, conn, 3), conn} })
	})
	close(done)
	killed := <-ended
	t.Logf("%d servers were killed", killed)
	require.Positive(t, killed)
}

// A caughtUp store counts exactly. Stats may read from a replica that lacks the last messages, as a server that was
// restarted does for a while.
type caughtUp struct {
	*natsstore.Store
	conn *nats.Conn
}

func (s caughtUp) Stats(ctx context.Context) (store.Stats, error) {
	js, err := jetstream.New(s.conn)
	if err != nil {
		return store.Stats{}, err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && !allCaughtUp(ctx, js, natsstore.StreamOf(s.Store)); {
		time.Sleep(20 * time.Millisecond)
	}
	return s.Store.Stats(ctx)
}

// allCaughtUp reports that each replica that answers has every message.
func allCaughtUp(ctx context.Context, js jetstream.JetStream, stream string) bool {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return false
	}
	for _, r := range s.CachedInfo().Cluster.Replicas {
		if !r.Offline && (!r.Current || r.Lag > 0) {
			return false
		}
	}
	return true
}

// killInTurn kills a server and restarts it, then the next one, until done or until enough were killed. It returns the
// number of kills.
func killInTurn(t *testing.T, servers *natstest.Servers, done <-chan struct{}) (killed int) {
	for ; killed < *kills; killed++ {
		for _, step := range []func(){
			func() { servers.Kill(killed % 3) },
			func() { servers.Restart(t, killed%3) },
		} {
			select {
			case <-done:
				return killed
			case <-time.After(3 * time.Second):
				step()
			}
		}
	}
	return killed
}

// An operations page reads this store by the methods that every store has.
func TestReader(t *testing.T) {
	t.Parallel()
	conn := natstest.Start(t, natstest.Config{}).Connect(t)
	servertest.TestReader(t, func(tb testing.TB) servertest.ReaderSetup {
		s := newStore(tb, conn, 1)
		r, err := store.ReaderOf(s)
		require.NoError(tb, err)
		return servertest.ReaderSetup{Store: s, Reader: r, Generic: true}
	})
}
