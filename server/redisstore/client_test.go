package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

// openOver opens a store with the options of a client.
func openOver(tb testing.TB, client redis.UniversalClient, cfg redisstore.Config) *redisstore.Store {
	tb.Helper()
	cfg.Prefix = fmt.Sprintf("t%x", rand.Uint64())
	s, err := redisstore.OpenClient(tb.Context(), client, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// A store over the client of a service follows all rules, and leaves the client open.
func TestOpenClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DB: 3})
	t.Cleanup(func() { _ = client.Close() })
	t.Run("rules", func(t *testing.T) {
		servertest.TestStore(t, func(tb testing.TB) store.Store { return openOver(tb, client, redisstore.Config{}) })
	})
	s := openOver(t, client, redisstore.Config{})
	require.LessOrEqual(t, redisstore.MaxRetries(s), 0, "a repeated move is told that it lost")
	require.Equal(t, 3, client.Options().MaxRetries, "the options of the service's client")
	claim(t, s, request(store.Keyed))
	size, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Positive(t, size, "the store uses the database of the client")
	require.NoError(t, s.Close())
	require.NoError(t, client.Ping(t.Context()).Err())
}

func TestOpenClient_cluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRetries: 5})
	defer client.Close()
	s := openOver(t, client, redisstore.Config{Replicas: 1})
	require.LessOrEqual(t, redisstore.MaxRetries(s), 0)
	for range 20 { // on all nodes
		claim(t, s, request(store.Keyed))
	}
	found, err := s.Reader().Browse(t.Context(), store.BrowseRequest{Limit: 100})
	require.NoError(t, err)
	require.Len(t, found, 20)

	one := redis.NewClient(&redis.Options{Addr: cluster.Addrs()[0]})
	defer one.Close()
	_, err = redisstore.OpenClient(t.Context(), one, redisstore.Config{Replicas: 1})
	require.ErrorIs(t, err, redisstore.ErrConfig)
	require.ErrorContains(t, err, "ClusterClient")
}

func TestOpenClient_refuses(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": nowhere}})
	defer ring.Close()
	single := redis.NewClient(&redis.Options{Addr: nowhere, ReadTimeout: time.Second})
	defer single.Close()
	routed := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}, RouteRandomly: true})
	defer routed.Close()
	for name, tt := range map[string]struct {
		client redis.UniversalClient
		cfg    redisstore.Config
	}{
		"nil":               {nil, redisstore.Config{}},
		"a nil client":      {(*redis.Client)(nil), redisstore.Config{}},
		"a ring":            {ring, redisstore.Config{}},
		"reads of replicas": {routed, redisstore.Config{}},
		"a bad Config":      {single, redisstore.Config{Replicas: -1}},
		"too short a time":  {single, redisstore.Config{Replicas: 1, WaitTimeout: 2 * time.Second}},
	} {
		_, err := redisstore.OpenClient(ctx, tt.client, tt.cfg)
		require.ErrorIs(t, err, redisstore.ErrConfig, name)
	}
	_, err := redisstore.OpenClient(ctx, single, redisstore.Config{})
	require.Error(t, err, "nobody listens")
	require.NotErrorIs(t, err, redisstore.ErrConfig)
}
