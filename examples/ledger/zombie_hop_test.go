//go:build unix

package main

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// An owner stands still with a call to the next hop on the wire. A peer takes over, calls the
// next hop as well and completes. Then the first call arrives. It has the same child key, so
// the next hop replays: it has one effect, and both callers get the same answer from it.
func TestZombie_callToTheNextHop(t *testing.T) {
	t.Parallel()
	sinkDatabase, database := pgtest.URL(t), pgtest.URL(t)
	sink := ledger(t, sinkDatabase, "SERVICE=sink")
	network := newGateway(t, sink.URL)
	owner := ledger(t, database, "LEASE=1s", "SINK_URL="+network.url)
	peer := ledger(t, database, "SINK_URL="+sink.URL)
	pool, sinkPool := connect(t, database), connect(t, sinkDatabase)

	req := blackboxtest.Request{URL: owner.URL + "/v1/effect-keyed", Tenant: "t", Key: "k", Body: `{"fp":"a"}`}
	woken := make(chan blackboxtest.Answer, 1)
	go func() { woken <- blackboxtest.Post(t.Context(), req) }()
	late := <-network.arrived
	owner.Signal(syscall.SIGSTOP)
	awaitDeath(t, pool)
	req.URL = peer.URL + "/v1/effect-keyed"
	taken := blackboxtest.PostUntilFinal(t.Context(), req)
	require.Equal(t, http.StatusCreated, taken.Status, taken.Body)
	require.Contains(t, taken.Body, `"service":"sink"`)
	var key, service string
	require.NoError(t, sinkPool.QueryRow(t.Context(), "select key, service from effects").Scan(&key, &service))

	network.letGo()
	<-late.done
	require.Contains(t, []string{key, `"` + key + `"`}, late.request.Header.Get("Idempotency-Key"), "the peer's child key")
	require.Equal(t, http.StatusCreated, late.answer.Status, late.answer.Body)
	require.True(t, late.answer.Replayed(), "the next hop did not run again")
	require.Equal(t, taken.Body, late.answer.Body)
	owner.Signal(syscall.SIGCONT)
	last := <-woken
	require.Equal(t, http.StatusConflict, last.Status, last.Body)
	require.Contains(t, last.Body, `"lease-lost"`)

	require.Equal(t, 1, effects(t, sinkPool, "t", key, kindDo))
	var rows, records int
	require.NoError(t, sinkPool.QueryRow(t.Context(), "select (select count(*) from effects), (select count(*) from idempotency)").Scan(&rows, &records))
	require.Equal(t, 1, rows)
	require.Equal(t, 1, records)
	require.True(t, blackboxtest.PostUntilFinal(t.Context(), req).Replayed())
}
