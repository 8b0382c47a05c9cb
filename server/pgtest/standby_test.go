package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// When the primary is lost, every acknowledged write is on the standby.
func TestCluster_failover(t *testing.T) {
	t.Parallel()
	primary, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })
	_, err = primary.CreateDatabase(t.Context(), "shop")
	require.NoError(t, err)
	standby, err := primary.StartStandby(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	url, err := pgtest.FailoverURL("shop", standby, primary)
	require.NoError(t, err)

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "create table t (a int)")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "insert into t values (1)")
	require.NoError(t, err)
	require.NoError(t, primary.Kill())
	require.NoError(t, conn.Close(t.Context()))

	_, err = pgx.Connect(t.Context(), url)
	require.Error(t, err, "a standby accepts no writes")
	for range 2 {
		require.NoError(t, standby.Promote(t.Context()))
	}
	conn, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	var a int
	require.NoError(t, conn.QueryRow(t.Context(), "insert into t select a + 1 from t returning a").Scan(&a))
	require.Equal(t, 2, a)
	require.NoError(t, conn.Close(t.Context()))
}

// Commits wait for a standby that is gone.
func TestCluster_standbyIsSynchronous(t *testing.T) {
	t.Parallel()
	primary, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })
	standby, err := primary.StartStandby(t.Context())
	require.NoError(t, err)
	require.NoError(t, standby.Stop())
	look, err := pgx.Connect(t.Context(), primary.URL(""))
	require.NoError(t, err)
	writer, err := pgx.Connect(t.Context(), primary.URL(""))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := writer.Exec(t.Context(), "create table t (a int)")
		done <- err
	}()
	for waits := false; !waits; {
		require.NoError(t, look.QueryRow(t.Context(), "select exists (select from pg_stat_activity where wait_event = 'SyncRep')").Scan(&waits))
	}
	require.NoError(t, primary.Kill())
	require.Error(t, <-done)
	_ = look.Close(t.Context())
	_ = writer.Close(t.Context())
}

func TestStartStandby_refused(t *testing.T) {
	t.Parallel()
	c, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	require.NoError(t, c.Stop())
	_, err = c.StartStandby(t.Context())
	require.ErrorIs(t, err, pgtest.ErrStopped)
	_, err = pgtest.FailoverURL("shop")
	require.Error(t, err)
}
