package main

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

func TestConfigFromEnv(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		env  map[string]string
		want string // in the error; "" for none
	}{
		{"least", map[string]string{"LISTEN": ":0", "DATABASE_URL": "postgres://h1:1,h2:2/db"}, ""},
		{"nothing", nil, "LISTEN: not set"},
		{"no database", map[string]string{"LISTEN": ":0"}, "DATABASE_URL: not set"},
		{"bad database", map[string]string{"LISTEN": ":0", "DATABASE_URL": "postgres://u:secret@h:x/db"}, "DATABASE_URL: not a Postgres URL"},
		{"bad lease", map[string]string{"LISTEN": ":0", "DATABASE_URL": "postgres://h/db", "LEASE": "30"}, "LEASE: "},
		{"negative work", map[string]string{"LISTEN": ":0", "DATABASE_URL": "postgres://h/db", "WORK": "-1s"}, "WORK: "},
		{"bad sink", map[string]string{"LISTEN": ":0", "DATABASE_URL": "postgres://h/db", "SINK_URL": "sink:80"}, "SINK_URL: "},
		{"bad service", map[string]string{"LISTEN": ":0", "DATABASE_URL": "postgres://h/db", "SERVICE": "a b"}, "SERVICE: "},
	}
	for _, tt := range tests {
		_, err := configFromEnv(func(name string) string { return tt.env[name] })
		if tt.want == "" {
			require.NoError(t, err, tt.name)
			continue
		}
		require.ErrorContains(t, err, tt.want, tt.name)
		require.NotContains(t, err.Error(), "secret", tt.name)
	}
}

// A ledger may be deployed before its database.
func TestStartsBeforeItsDatabase(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Stop()) }()
	database, err := cluster.CreateDatabase(t.Context(), "ledger")
	require.NoError(t, err)
	require.NoError(t, cluster.Kill())

	p := blackboxtest.Start(t, "DATABASE_URL="+database)
	require.Eventually(t, func() bool {
		return blackboxtest.Status(t.Context(), p.URL+"/healthz") == http.StatusServiceUnavailable
	},
		2*time.Minute, 10*time.Millisecond, "listens before the database is there")
	early := blackboxtest.Post(t.Context(), blackboxtest.Request{URL: p.URL + "/v1/effect", Tenant: "t", Key: "k", Body: `{"fp":"a"}`})
	require.Equal(t, http.StatusServiceUnavailable, early.Status)
	require.NotEmpty(t, early.Header.Get("Retry-After"))

	require.NoError(t, cluster.Restart(t.Context()))
	p.AwaitReady()
	require.Equal(t, http.StatusCreated, blackboxtest.Post(t.Context(), blackboxtest.Request{
		URL: p.URL + "/v1/effect", Tenant: "t", Key: "k", Body: `{"fp":"a"}`,
	}).Status)
	p.Signal(syscall.SIGTERM)
	require.NoError(t, p.Wait())
}

// A process that is told to stop finishes and answers the runs that it has.
func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database, "WORK=500ms")
	pool := connect(t, database)
	answered := make(chan blackboxtest.Answer, 1)
	go func() {
		answered <- blackboxtest.Post(t.Context(), blackboxtest.Request{URL: p.URL + "/v1/effect", Tenant: "t", Key: "k", Body: `{"fp":"a"}`})
	}()
	require.Eventually(t, func() bool {
		var n int
		return pool.QueryRow(t.Context(), "select count(*) from idempotency").Scan(&n) == nil && n == 1
	}, 2*time.Minute, 5*time.Millisecond, "never claimed")
	p.Signal(syscall.SIGTERM)
	require.Equal(t, http.StatusCreated, (<-answered).Status)
	require.NoError(t, p.Wait(), "a drained ledger exits with status 0")
	require.Equal(t, 1, effects(t, pool, "t", "k", kindDo))
}

// The effect is the sink's, and the answer is the sink's, whoever asks again.
func TestKeyedPassesTheSinksAnswerOn(t *testing.T) {
	t.Parallel()
	sinkDatabase, database := pgtest.URL(t), pgtest.URL(t)
	sink := ledger(t, sinkDatabase, "SERVICE=sink")
	p := ledger(t, database, "SINK_URL="+sink.URL)
	req := blackboxtest.Request{URL: p.URL + "/v1/effect-keyed", Tenant: "t", Key: "k", Body: `{"fp":"a"}`}
	first, second := blackboxtest.Post(t.Context(), req), blackboxtest.Post(t.Context(), req)
	require.Equal(t, http.StatusCreated, first.Status, first.Body)
	require.Contains(t, first.Body, `"service":"sink"`)
	require.NotContains(t, first.Body, `"key":"k"`, "the sink was called with a child key")
	require.Equal(t, first.Body, second.Body)
	require.True(t, second.Replayed())

	rejected := req
	rejected.Key, rejected.Body = "k2", `{"fp":"a","reject":true}`
	require.Equal(t, http.StatusPaymentRequired, blackboxtest.Post(t.Context(), rejected).Status)
	require.True(t, blackboxtest.Post(t.Context(), rejected).Replayed(), "a rejection is final")

	sink.Kill()
	open := req
	open.Key = "k3"
	unknown := blackboxtest.Post(t.Context(), open)
	require.Equal(t, http.StatusServiceUnavailable, unknown.Status)
	require.NotEmpty(t, unknown.Header.Get("Retry-After"))
	sink.Restart()
	sink.AwaitReady()
	require.Equal(t, http.StatusCreated, blackboxtest.PostUntilFinal(t.Context(), open).Status, "not stored: the next call ran again")

	var n int
	require.NoError(t, connect(t, sinkDatabase).QueryRow(t.Context(), "select count(*) from effects").Scan(&n))
	require.Equal(t, 2, n)
}
