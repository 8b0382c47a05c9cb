package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// watchSome lets one process end runs that another one waits for, and returns how long the news took at most.
func watchSome(t *testing.T, waits, runs *redisstore.Store, n int) (slowest time.Duration) {
	t.Helper()
	for range n {
		o := claim(t, runs, request(store.Keyed))
		ended, stop := waits.Watch(o.ID, o.Fence)
		time.Sleep(20 * time.Millisecond) // most waits are longer than a look at the record
		began := time.Now()
		require.NoError(t, runs.Settle(t.Context(), o, completion))
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody was told")
		}
		slowest = max(slowest, time.Since(began))
		stop()
	}
	return slowest
}

func TestWatch_isTold(t *testing.T) {
	t.Parallel()
	for _, cluster := range []bool{false, true} {
		addrs := []string{}
		if cluster {
			addrs = redistest.StartCluster(t).Addrs()
		} else {
			addrs = append(addrs, redistest.Start(t).Addr())
		}
		waits := open(t, redisstore.Config{Prefix: "same", AllowNonDurable: true}, addrs...)
		runs := open(t, redisstore.Config{Prefix: "same", AllowNonDurable: true}, addrs...)
		watchSome(t, waits, runs, 1)
		eventually(t, "the subscription is there", waits.Listening)
		require.False(t, runs.Listening(), "a process in which nobody waits has subscribed")
		if slowest := watchSome(t, waits, runs, 20); slowest > time.Second {
			t.Errorf("the slowest message took %v, which is as long as a look at the record", slowest)
		}
	}
}

// The subscription is lost again and again. A look at the record, or the new subscription, tells the end.
func TestWatch_goesOnWithoutTheSubscription(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	waits := open(t, redisstore.Config{Prefix: "same"}, srv.Addr())
	runs := open(t, redisstore.Config{Prefix: "same"}, srv.Addr())
	client := srv.Client()
	defer client.Close()
	watchSome(t, waits, runs, 1)
	for range 5 {
		eventually(t, "the subscription is there", waits.Listening)
		o := claim(t, runs, request(store.Keyed))
		ended, stop := waits.Watch(o.ID, o.Fence)
		require.NoError(t, client.Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		require.NoError(t, runs.Settle(t.Context(), o, completion))
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody was told")
		}
		stop()
	}
}

// One process has one subscription, however many wait.
func TestWatch_oneSubscription(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, redisstore.Config{}, srv.Addr())
	client := srv.Client()
	defer client.Close()
	for range 50 {
		o := claim(t, s, request(store.Keyed))
		_, stop := s.Watch(o.ID, o.Fence)
		defer stop()
	}
	eventually(t, "the subscription is there", s.Listening)
	channels, err := client.PubSubNumSub(t.Context(), channelOf(t, client.PubSubChannels(t.Context(), "*").Val())).Result()
	require.NoError(t, err)
	for channel, n := range channels {
		require.EqualValues(t, 1, n, channel)
	}
}

func channelOf(t *testing.T, channels []string) string {
	t.Helper()
	require.Len(t, channels, 1)
	return channels[0]
}
