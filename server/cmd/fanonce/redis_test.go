package main_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

// unknownRedisKeys is unknownKeys for a service that keeps its keys in Redis.
func unknownRedisKeys(t *testing.T, url, prefix string, keys ...string) []string {
	t.Helper()
	options, err := redisstore.ParseURL(url)
	require.NoError(t, err)
	s, err := redisstore.Open(t.Context(), options, redisstore.Config{Prefix: prefix})
	require.NoError(t, err)
	defer s.Close()
	guard, err := server.NewGuard(s, func(*http.Request) (string, error) { return tenant, nil }, server.Config{Namespace: namespace})
	require.NoError(t, err)
	failing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	h, err := guard.Route(server.Route{Name: "charge", Effect: server.Opaque}, failing)
	require.NoError(t, err)
	var ids []string
	for _, key := range keys {
		require.Equal(t, http.StatusInternalServerError, charge(t, h, key).Code)
		ids = append(ids, store.NewID(tenant, namespace, childkey.MustParse(key)).String())
	}
	require.NoError(t, guard.Shutdown(t.Context()))
	return ids
}

// The verbs of keys work on Redis as on Postgres.
func TestKeys_redis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendfsync", "everysec")
	address := "redis://" + srv.Addr() + "/0"
	ids := unknownRedisKeys(t, address, "orders", "k-1", "k-2", "k-3")
	url := address + "?prefix=orders"

	list := parse[keyList](t, on(t, url, "keys", "list", "--json").requireCode(t, 0))
	require.Len(t, list.Keys, 3)
	require.Equal(t, "shop:charge", list.Keys[0]["route"])
	require.Len(t, parse[keyList](t, on(t, url, "keys", "list", "--json", "--state", "any", "--since", "1h").requireCode(t, 0)).Keys, 3)
	require.Empty(t, parse[keyList](t, on(t, address, "keys", "list", "--json").requireCode(t, 0)).Keys, "keys of another prefix")
	require.Contains(t, on(t, url, "keys", "show", ids[0][:8]).requireCode(t, 0).stdout, ids[0])
	require.Contains(t, on(t, url, "keys", "show", "0123456789").requireCode(t, 1).stderr, "no key has an ID that begins with")

	done := parse[verdict](t, on(t, url, "keys", "resolve", "--as", "abandoned", "--yes", "--reason", "r", "--json", ids[0][:8]).requireCode(t, 0))
	require.Equal(t, []string{"unknown", "cancelled"}, []string{done.Changed[0].From, done.Changed[0].To})
	on(t, url, "keys", "resolve", "--as", "run-again", "--yes", "--reason", "the bank has no charge", ids[1]).requireCode(t, 0)
	require.Equal(t, "the bank has no charge", parse[auditLog](t, on(t, url, "keys", "audit", "--json", ids[1]).requireCode(t, 0)).Audit[0].Reason)
	on(t, url, "keys", "forget", "--all", "--reason", "r", "--yes").requireCode(t, 2)
	on(t, url, "keys", "forget", "--all", "--reason", "r", "--count", "1").requireCode(t, 0)

	doc := parse[statusDoc](t, on(t, "", "status", "--json", "--store", "orders="+url).requireCode(t, 0))
	require.Equal(t, "calm", doc.Stores[0].Status)
	require.Nil(t, doc.Stores[0].StuckSagas, "Redis has no sagas")
	for _, command := range [][]string{{"saga", "list"}, {"migrate", "status"}, {"doctor"}, {"sweep"}} {
		require.Contains(t, on(t, url, command...).requireCode(t, 2).stderr, "this command needs Postgres")
	}
	require.Contains(t, on(t, url, "keys", "list", "--schema", "public").requireCode(t, 2).stderr, "--schema is for Postgres")
	require.Contains(t, on(t, "redis://:secret@127.0.0.1:1/0", "keys", "list", "--timeout", "2s").requireCode(t, 2).stderr, "cannot open Redis")
	require.NotContains(t, on(t, "redis://:secret@127.0.0.1:x/0", "keys", "list").requireCode(t, 2).stderr, "secret")
}
