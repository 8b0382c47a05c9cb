//go:build unix

package main

import (
	"flag"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

var zombies = flag.Int("ledger.zombies", 10, "owners that TestZombie stops and wakes, one after the other")

// An owner stands still past its lease, as in a long pause of its machine, and
// a peer takes over. Awake again it finds its ctx cancelled, changes nothing, and
// says so to its caller.
func TestZombie(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	// Only the end of its ctx ends the owner's work: that it answers at all
	// shows that it was told.
	owner := ledger(t, database, "LEASE=300ms", "WORK=1h", "SERVICE=owner")
	peer := ledger(t, database, "WORK=1ms", "SERVICE=peer")
	pool := connect(t, database)
	for _, path := range []string{"/v1/effect", "/v1/effect-opaque"} {
		for n := range (*zombies + 1) / 2 {
			zombie(t, pool, owner, peer, path, fmt.Sprintf("%s-%d", path[len("/v1/"):], n))
		}
	}
}

func zombie(t *testing.T, pool *pgxpool.Pool, owner, peer *blackboxtest.Process, path, key string) {
	t.Helper()
	req := blackboxtest.Request{URL: owner.URL + path, Tenant: "t", Key: key, Body: `{"fp":"a"}`}
	var claimed int
	require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from idempotency").Scan(&claimed))
	woken := make(chan blackboxtest.Answer, 1)
	go func() { woken <- blackboxtest.Post(t.Context(), req) }()
	await(t, pool, fmt.Sprint("select count(*) > ", claimed, " from idempotency"), "never claimed")
	owner.Signal(syscall.SIGSTOP)
	awaitDeath(t, pool)

	req.URL = peer.URL + path
	taken := untilFinalOrUnknown(t, req)
	owner.Signal(syscall.SIGCONT)
	last := <-woken

	require.Equal(t, http.StatusConflict, last.Status, last.Body)
	require.Contains(t, last.Body, `"lease-lost"`)
	if path == "/v1/effect-opaque" { // nobody guesses what the owner did before it stood still
		require.Contains(t, taken.Body, "outcome-unknown")
		require.Zero(t, effects(t, pool, "t", key, kindDo))
		return
	}
	require.Equal(t, http.StatusCreated, taken.Status, taken.Body)
	require.Contains(t, taken.Body, `"service":"peer"`)
	require.Equal(t, 1, effects(t, pool, "t", key, kindDo))
	var service string
	var fence int64
	require.NoError(t, pool.QueryRow(t.Context(), "select service from effects where key = $1", key).Scan(&service))
	require.NoError(t, pool.QueryRow(t.Context(), "select fence from idempotency order by created_at desc limit 1").Scan(&fence))
	require.Equal(t, "peer", service)
	require.EqualValues(t, 2, fence)
}

// awaitDeath waits until the owner's lease is over. On a slow machine it can be over, and the
// key released, before the owner stood still.
func awaitDeath(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	await(t, pool, "select not exists (select from idempotency where state = 1 and lease_until >= clock_timestamp())", "the lease never ended")
}

func await(t *testing.T, pool *pgxpool.Pool, query, message string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var there bool
		return pool.QueryRow(t.Context(), query).Scan(&there) == nil && there
	}, time.Minute, 10*time.Millisecond, message)
}

func untilFinalOrUnknown(t *testing.T, req blackboxtest.Request) (last blackboxtest.Answer) {
	t.Helper()
	require.Eventually(t, func() bool {
		last = blackboxtest.Post(t.Context(), req)
		return last.Status == http.StatusCreated || last.Header.Get("Idempotency-Should-Retry") == "false"
	}, time.Minute, 10*time.Millisecond, "the peer never took over")
	return last
}
