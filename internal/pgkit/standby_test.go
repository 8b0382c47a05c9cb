package pgkit_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/pgtest"
)

// withoutStandby is a server whose only synchronous standby never comes. Every
// commit of pool waits for it; those of look do not.
func withoutStandby(t *testing.T, changes ...func(*pgxpool.Config)) (pool, look *pgxpool.Pool) {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	url := cluster.URL("postgres")
	look = newPoolAt(t, url, session("synchronous_commit", "local"))
	exec(t, look, "create table t (a int)")
	exec(t, look, "alter system set synchronous_standby_names = 'ghost'")
	require.NoError(t, cluster.Restart(t.Context())) // a reload takes effect some time later
	look.Reset()
	return newPoolAt(t, url, changes...), look
}

// committing returns the backend whose commit waits for the standby.
func committing(t *testing.T, look *pgxpool.Pool) (pid int) {
	t.Helper()
	until(t, "a commit waits for the standby", func() bool {
		pid = queryRow[int](t, look, "select coalesce(max(pid), 0) from pg_stat_activity where wait_event = 'SyncRep'")
		return pid != 0
	})
	return pid
}

var insert = pgkit.Statement{SQL: "insert into t values (1)"}

func insertInBackground(ctx context.Context, w *pgkit.Writer) <-chan error {
	failed := make(chan error, 1)
	go func() {
		_, err := pgkit.Exec(ctx, w, insert)
		failed <- err
	}()
	return failed
}

// A commit that only this server has must not become visible because a caller, or the whole
// program, is out of time. A cancel request would make it visible.
func TestWriter_leavesTheWaitForAStandbyAlone(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32 // pgx dials to connect, and to send a cancel request
	pool, look := withoutStandby(t, func(cfg *pgxpool.Config) {
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return dial(ctx, network, address)
		}
	})
	count := func() int { return queryRow[int](t, look, "select count(*) from t") }
	w := newWriter(t, pool, 0)
	ctx, cancel := context.WithCancel(t.Context())
	failed := insertInBackground(ctx, w)
	pid := committing(t, look)
	cancel()
	require.ErrorIs(t, <-failed, pgkit.ErrFateUnknown)
	require.Equal(t, 1, w.Detached())
	require.Equal(t, pid, committing(t, look), "its caller has left")
	require.Equal(t, 0, count())

	require.ErrorIs(t, w.Close(ctx), context.Canceled)
	require.Equal(t, 0, w.Detached())
	pool.Close() // waits for the work of pgx in the background for a broken connection
	require.EqualValues(t, 1, dials.Load(), "it was not canceled")
	require.Equal(t, pid, committing(t, look), "its connection is broken")
	require.Equal(t, 0, count())

	exec(t, look, "alter system set synchronous_standby_names = ''")
	exec(t, look, "select pg_reload_conf()")
	until(t, "it is durable after all", func() bool { return count() == 1 })
}

// pgx returns no error for a commit whose wait somebody canceled.
func TestWriter_standbyDidNotConfirm(t *testing.T) {
	t.Parallel()
	pool, look := withoutStandby(t)
	w := newWriter(t, pool, 0)
	for _, end := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		failed := insertInBackground(t.Context(), w)
		exec(t, look, "select "+end+"($1)", committing(t, look))
		require.ErrorIs(t, <-failed, pgkit.ErrFateUnknown, end)
		_, err := pgkit.Exec(t.Context(), w, pgkit.Statement{SQL: "select 1"})
		require.NoError(t, err, "a later write does not inherit it")
		until(t, "nobody waits", func() bool {
			return queryRow[bool](t, look, "select not exists (select from pg_stat_activity where wait_event = 'SyncRep')")
		})
	}
	require.Equal(t, 2, queryRow[int](t, look, "select count(*) from t"), "both were committed here")
}
