package main

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// privateServer starts a Postgres that the test may break.
func privateServer(t *testing.T) *pgtest.Cluster {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return cluster
}

// notReady waits until the orchestrator listens and says that it is not ready, and looks at
// what it answers then.
func (d *deployment) notReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return blackboxtest.Status(t.Context(), d.front.URL+"/healthz") == http.StatusServiceUnavailable
	}, 2*time.Minute, 10*time.Millisecond, "listens before it is ready")
	early := blackboxtest.Post(t.Context(), d.saga("early", `{"fp":"a"}`))
	require.Equal(t, http.StatusServiceUnavailable, early.Status, early.Body)
	require.NotEmpty(t, early.Header.Get("Retry-After"))
}

// works runs a saga with that key to its end.
func (d *deployment) works(t *testing.T, key string) {
	t.Helper()
	require.Equal(t, http.StatusAccepted, blackboxtest.PostUntilFinal(t.Context(), d.saga(key, `{"fp":"a"}`)).Status)
	require.Equal(t, "completed", untilOver(t, d.front, key).Status)
	for hop := range operations {
		done, undone := d.ledgerOf(t, hop, key)
		require.Equal(t, [2]int{1, 0}, [2]int{done, undone}, hop)
	}
}

// An orchestrator may be deployed before its database, as a ledger may.
func TestStartsBeforeItsDatabase(t *testing.T) {
	t.Parallel()
	cluster := privateServer(t)
	database, err := cluster.CreateDatabase(t.Context(), "orchestrator")
	require.NoError(t, err)
	require.NoError(t, cluster.Kill())
	w := newHopsOnly(t)
	w.startFront(t, database, straight)
	w.notReady(t)
	require.NoError(t, cluster.Restart(t.Context()))
	w.front.AwaitReady()
	w.works(t, "s-1")
	w.front.Signal(syscall.SIGTERM)
	require.NoError(t, w.front.Wait())
}

// It is told to stop while it waits for its database. It does, and nothing went wrong.
func TestStopsBeforeItsDatabaseIsThere(t *testing.T) {
	t.Parallel()
	cluster := privateServer(t)
	database, err := cluster.CreateDatabase(t.Context(), "orchestrator")
	require.NoError(t, err)
	require.NoError(t, cluster.Kill())
	w := newHopsOnly(t)
	w.startFront(t, database, straight)
	w.notReady(t)
	w.front.Signal(syscall.SIGTERM)
	require.NoError(t, w.front.Wait())
}

// It starts while the primary is dead and the standby not promoted yet, whether it knows both
// servers or is led to the standby.
func TestStartsDuringAFailover(t *testing.T) {
	t.Parallel()
	primary := privateServer(t)
	_, err := primary.CreateDatabase(t.Context(), "orchestrator")
	require.NoError(t, err)
	standby, err := primary.StartStandby(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	both, err := pgtest.FailoverURL("orchestrator", primary, standby)
	require.NoError(t, err)
	require.NoError(t, primary.Kill())
	knows := newHopsOnly(t)
	led := &deployment{hops: knows.hops, databases: knows.databases}
	knows.startFront(t, both, straight)
	led.startFront(t, standby.URL("orchestrator"), straight)
	knows.notReady(t)
	led.notReady(t)
	require.NoError(t, standby.Promote(t.Context()))
	knows.front.AwaitReady()
	led.front.AwaitReady()
	knows.works(t, "s-1")
	led.works(t, "s-2")
}

// It starts while no commit gets an answer, as after the loss of a synchronous standby: what
// became of its first heartbeat it cannot know. It goes on, and is ready once commits are
// answered.
func TestStartsWhileCommitsHang(t *testing.T) {
	t.Parallel()
	cluster := privateServer(t)
	database, err := cluster.CreateDatabase(t.Context(), "orchestrator")
	require.NoError(t, err)
	look, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(look.Close)
	w := newHopsOnly(t)
	w.startFront(t, database, straight, "LEASE=1s")
	w.front.AwaitReady()
	w.works(t, "s-1")
	w.front.Kill()

	exec := func(sql string) {
		t.Helper()
		_, err := look.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("alter system set synchronous_standby_names = 'ghost'")
	require.NoError(t, cluster.Restart(t.Context()))
	look.Reset()
	w.front.Restart()
	// The first write waits for the standby, and the next ones for the first.
	require.Eventually(t, func() bool {
		var n int
		err := look.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where application_name = 'orchestrator' and (wait_event = 'SyncRep' or wait_event_type = 'Lock')`).Scan(&n)
		return err == nil && n > 1
	}, 2*time.Minute, 10*time.Millisecond, "the first heartbeat is not repeated")
	w.notReady(t)
	require.True(t, w.front.Running())
	exec("alter system set synchronous_standby_names = ''")
	exec("select pg_reload_conf()")
	w.front.AwaitReady()
	w.works(t, "s-2")
}
