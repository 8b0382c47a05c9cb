package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgtest"
)

// killVariable makes a child kill itself by SIGKILL as soon as the key of a
// run is completed: after COMMIT and before the answer.
const killVariable = "LEDGER_TEST_KILL_AFTER_COMMIT"

// codecVariable makes a child seal what it stores.
const codecVariable = "LEDGER_TEST_CODEC"

type killer struct{}

func (killer) Observe(_ context.Context, e server.Event) {
	if e.Kind == server.EventSettled {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal ends the process, not this goroutine
	}
}

// heapVariable makes a child write its live heap, in bytes, to the file that it names,
// whenever it gets SIGUSR1.
const heapVariable = "LEDGER_TEST_HEAP"

func writeHeap(file string) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		whole := file + ".new"
		if err := os.WriteFile(whole, strconv.AppendUint(nil, stats.HeapAlloc, 10), 0o600); err == nil {
			_ = os.Rename(whole, file) // the test waits for it, and fails without
		}
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(blackboxtest.ChildVariable) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(killVariable) != "" {
		testObserver = killer{}
	}
	if os.Getenv(codecVariable) != "" {
		codec, err := server.NewAESGCM(server.AESKey{ID: "k1", Secret: make([]byte, server.AESKeyBytes)})
		if err != nil {
			panic(err)
		}
		testCodec = codec
	}
	if file := os.Getenv(heapVariable); file != "" {
		go writeHeap(file)
	}
	main()
}

// ledger starts a replica over the database.
func ledger(t *testing.T, database string, env ...string) *blackboxtest.Process {
	t.Helper()
	return blackboxtest.Start(t, append(env, "DATABASE_URL="+database)...).AwaitReady()
}

func connect(t *testing.T, database string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// effects counts the rows of a key.
func effects(t *testing.T, pool *pgxpool.Pool, tenant, key, kind string) (n int) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `select count(*) from effects where tenant = $1 and key = $2 and kind = $3`, tenant, key, kind).Scan(&n)
	require.NoError(t, err)
	return n
}

func TestEffect(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database, "SERVICE=inventory")
	req := blackboxtest.Request{URL: p.URL + "/v1/effect", Tenant: "t1", Key: `"k-1"`, Body: `{"fp":"a"}`}

	first := blackboxtest.Post(t.Context(), req)
	require.Equal(t, http.StatusCreated, first.Status, first.Body)
	require.Equal(t, "false", first.Header.Get("Idempotent-Replayed"))
	var out answer
	require.NoError(t, json.Unmarshal([]byte(first.Body), &out))
	require.Equal(t, answer{EffectID: out.EffectID, Tenant: "t1", Key: "k-1", Service: "inventory"}, out)
	require.Len(t, out.EffectID, 36)

	again := req
	again.Key = "k-1" // bare is the same key
	replay := blackboxtest.Post(t.Context(), again)
	require.True(t, replay.Replayed())
	require.Equal(t, first.Body, replay.Body)
	require.Equal(t, first.Status, replay.Status)

	other := req
	other.Body = `{"fp":"b"}`
	require.Equal(t, http.StatusUnprocessableEntity, blackboxtest.Post(t.Context(), other).Status)

	foreign := req
	foreign.Tenant = "t2"
	require.False(t, blackboxtest.Post(t.Context(), foreign).Replayed(), "another tenant's key is another key")

	pool := connect(t, database)
	require.Equal(t, 1, effects(t, pool, "t1", "k-1", kindDo))
	require.Equal(t, 1, effects(t, pool, "t2", "k-1", kindDo))
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	p := ledger(t, database)
	tests := []struct {
		name   string
		req    blackboxtest.Request
		status int
	}{
		{"not JSON", blackboxtest.Request{Tenant: "t", Key: "not-json", Body: `{`}, http.StatusBadRequest},
		{"unknown kind", blackboxtest.Request{Tenant: "t", Key: "kind", Body: `{"fp":"a","kind":"undo"}`}, http.StatusBadRequest},
		{"rejected", blackboxtest.Request{Tenant: "t", Key: "rejected", Body: `{"fp":"a","reject":true}`}, http.StatusPaymentRequired},
	}
	for _, tt := range tests {
		tt.req.URL = p.URL + "/v1/effect"
		require.Equal(t, tt.status, blackboxtest.Post(t.Context(), tt.req).Status, tt.name)
	}
	require.Equal(t, http.StatusNotFound, blackboxtest.Post(t.Context(), blackboxtest.Request{
		URL: p.URL + "/v1/effect-keyed", Tenant: "t", Key: "k", Body: `{}`,
	}).Status, "without a sink")
	var n int
	require.NoError(t, connect(t, database).QueryRow(t.Context(), "select count(*) from effects").Scan(&n))
	require.Zero(t, n)
}
