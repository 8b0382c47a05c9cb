//go:build unix

package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// Postgres crashes while commits are on their way to it and back: the whole server, and one
// backend, which takes the others with it. Callers hear 503 and ask again. No acknowledged
// answer is lost, and every key has one effect.
func TestPostgresCrashes(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	database, err := cluster.CreateDatabase(t.Context(), "ledger")
	require.NoError(t, err)
	p := ledger(t, database, "LEASE=1s", "WORK=1ms")
	pool := connect(t, database)
	callers := &insistent{url: p.URL + "/v1/effect", answers: make(map[string]string)}
	stop := callers.start(t, 8)
	goOn := func() {
		t.Helper()
		from := callers.answered()
		require.Eventually(t, func() bool { return callers.answered() > from+40 }, time.Minute, time.Millisecond, "nobody is served any more")
	}
	goOn()
	crashes := map[string]func(){
		"server": func() {
			require.NoError(t, cluster.Kill())
			require.NoError(t, cluster.Restart(t.Context()))
		},
		"backend": func() {
			var pid int
			require.NoError(t, pool.QueryRow(t.Context(), `select pid from pg_stat_activity
				where application_name = 'ledger' order by state <> 'active' limit 1`).Scan(&pid))
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		},
	}
	for range 2 {
		for _, crash := range crashes {
			witness, err := pgx.Connect(t.Context(), database)
			require.NoError(t, err)
			crash()
			// The postmaster takes a moment to notice that a backend died. Until then old connections still answer.
			require.Eventually(t, func() bool { return witness.Ping(t.Context()) != nil }, time.Minute, time.Millisecond, "the sessions live on")
			_ = witness.Close(t.Context()) // it is broken
			pool.Reset()                   // its idle connections are as dead as the witness
			require.Eventually(t, func() bool { return pool.Ping(t.Context()) == nil }, time.Minute, time.Millisecond, "the server does not come back")
			goOn()
		}
	}
	stop()
	callers.requireOnce(t, pool)
}
