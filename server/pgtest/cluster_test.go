package pgtest_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// startPrivate starts a private cluster, which a test may crash.
func startPrivate(t *testing.T, cfg pgtest.Config) *pgtest.Cluster {
	t.Helper()
	cfg.Private = true
	cluster, err := pgtest.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return cluster
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close(context.WithoutCancel(t.Context())) // broken in tests that kill the server
	})
	return conn
}

func show(t *testing.T, conn *pgx.Conn, setting string) string {
	t.Helper()
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), "show "+setting).Scan(&value))
	return value
}

func TestCluster_acknowledgedCommitsSurviveKill(t *testing.T) {
	t.Parallel()
	cluster := startPrivate(t, pgtest.Config{})
	url, err := cluster.CreateDatabase(t.Context(), "ledger")
	require.NoError(t, err)
	conn := connect(t, url)
	_, err = conn.Exec(t.Context(), "create table entry (id int primary key)")
	require.NoError(t, err)

	for round := range 3 {
		conn := connect(t, url)
		for i := range 20 {
			_, err := conn.Exec(t.Context(), "insert into entry values ($1)", round*20+i)
			require.NoError(t, err)
		}
		require.NoError(t, cluster.Kill())
		require.NoError(t, cluster.Kill(), "a dead server is not killed again")
		_, err := pgx.Connect(t.Context(), url)
		require.Error(t, err)
		require.NoError(t, cluster.Restart(t.Context()))
	}

	var rows int
	require.NoError(t, connect(t, url).QueryRow(t.Context(), "select count(*) from entry").Scan(&rows))
	require.Equal(t, 60, rows)
}

func TestCluster_restartOfARunningServerKeepsItsURL(t *testing.T) {
	t.Parallel()
	cluster := startPrivate(t, pgtest.Config{})
	url, err := cluster.CreateDatabase(t.Context(), "ledger")
	require.NoError(t, err)
	old := connect(t, url)
	require.NoError(t, cluster.Restart(t.Context()))
	require.Error(t, old.Ping(t.Context()))
	require.NoError(t, connect(t, url).Ping(t.Context()))
}

// Databases that are made and dropped one after the other share one connection, also after it broke.
func TestCluster_keepsOneConnectionForDatabases(t *testing.T) {
	t.Parallel()
	cluster := startPrivate(t, pgtest.Config{})
	makeOne := func() {
		t.Helper()
		_, err := cluster.CreateDatabase(t.Context(), "ledger")
		require.NoError(t, err)
		require.NoError(t, cluster.DropDatabase(t.Context(), "ledger"))
	}
	kept := func() []int {
		t.Helper()
		rows, err := connect(t, cluster.URL("")).Query(t.Context(), `select pid from pg_stat_activity
			where datname = 'postgres' and backend_type = 'client backend' and query like 'drop database%'`)
		require.NoError(t, err)
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		require.NoError(t, err)
		return pids
	}
	makeOne()
	first := kept()
	require.Len(t, first, 1)
	for range 5 {
		makeOne()
	}
	require.Equal(t, first, kept())
	_, err := connect(t, cluster.URL("")).Exec(t.Context(), "select pg_terminate_backend($1, 10000)", first[0])
	require.NoError(t, err)
	makeOne()
	require.NoError(t, cluster.Kill())
	require.NoError(t, cluster.Restart(t.Context()))
	makeOne()
	require.Len(t, kept(), 1)
}

func TestCluster_stopLeavesNothing(t *testing.T) {
	t.Parallel()
	cluster := startPrivate(t, pgtest.Config{})
	folder := filepath.Dir(show(t, connect(t, cluster.URL("")), "data_directory"))
	require.DirExists(t, folder)
	require.NoError(t, cluster.Stop())
	require.NoDirExists(t, folder)

	require.NoError(t, cluster.Stop(), "a second Stop does nothing")
	require.ErrorIs(t, cluster.Kill(), pgtest.ErrStopped)
	require.ErrorIs(t, cluster.Restart(t.Context()), pgtest.ErrStopped)
	_, err := cluster.CreateDatabase(t.Context(), "x")
	require.ErrorIs(t, err, pgtest.ErrStopped)
}

func TestCluster_stopAfterKillLeavesNothing(t *testing.T) {
	t.Parallel()
	cluster := startPrivate(t, pgtest.Config{})
	folder := filepath.Dir(show(t, connect(t, cluster.URL("")), "data_directory"))
	require.NoError(t, cluster.Kill())
	require.NoError(t, cluster.Stop())
	require.NoDirExists(t, folder)
}

func TestStart_settings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		cfg  pgtest.Config
		want map[string]string
	}{
		{"default", pgtest.Config{}, map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"}},
		{"durable", pgtest.Config{Durable: true}, map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}},
		{"own settings win", pgtest.Config{Settings: map[string]string{"max_connections": "17"}}, map[string]string{"max_connections": "17"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, startPrivate(t, tt.cfg).URL(""))
			for setting, want := range tt.want {
				require.Equal(t, want, show(t, conn, setting), setting)
			}
		})
	}
}

func TestStart_badSettingSaysWhatPostgresSaid(t *testing.T) {
	t.Parallel()
	_, err := pgtest.Start(t.Context(), pgtest.Config{Settings: map[string]string{"no_such_setting": "1"}})
	require.ErrorContains(t, err, "no_such_setting")
}

func TestStart_endsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	require.ErrorIs(t, err, cause)
}

func TestStart_passwordIsNeeded(t *testing.T) {
	t.Parallel()
	url := startPrivate(t, pgtest.Config{}).URL("")
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(cfg.Password), 26, "a password of 130 bits makes up for the one iteration")
	var secret string
	require.NoError(t, connect(t, url).QueryRow(t.Context(), "select rolpassword from pg_authid where rolname = $1", cfg.User).Scan(&secret))
	require.Regexp(t, `^SCRAM-SHA-256\$1:`, secret)
	cfg.Password = "wrong"
	_, err = pgx.ConnectConfig(t.Context(), cfg)
	require.ErrorContains(t, err, "password authentication failed")
}

func TestStart_withoutPostgres(t *testing.T) { // not parallel: it sets the environment
	t.Setenv(pgtest.EnvDatabaseURL, "")
	empty := t.TempDir()
	tests := []struct {
		name, env string
		cfg       pgtest.Config
	}{
		{"hidden", pgtest.NoBin, pgtest.Config{}},
		{"named folder is empty", empty, pgtest.Config{}},
		{"named folder is missing", filepath.Join(empty, "missing"), pgtest.Config{}},
		{"configured folder is empty", "", pgtest.Config{Bin: empty}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(pgtest.EnvBin, tt.env)
			_, err := pgtest.Start(t.Context(), tt.cfg)
			require.ErrorIs(t, err, pgtest.ErrUnavailable)
			for _, wayOut := range []string{"DATABASE_URL", "install"} {
				require.Contains(t, err.Error(), wayOut)
			}
		})
	}
}

func TestCluster_badDatabaseName(t *testing.T) {
	t.Parallel()
	cluster := startPrivate(t, pgtest.Config{})
	tests := []struct {
		name, database string
		ok             bool
	}{
		{"empty", "", false},
		{"too long", strings.Repeat("a", 41), false},
		{"NUL", "a\x00b", false},
		{"longest", strings.Repeat("a", 40), true},
		{"quotes and slashes", `a"b/c'd?e #\ü`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, err := cluster.CreateDatabase(t.Context(), tt.database)
			if !tt.ok {
				require.ErrorIs(t, err, pgtest.ErrBadName)
				require.ErrorIs(t, cluster.DropDatabase(t.Context(), tt.database), pgtest.ErrBadName)
				return
			}
			require.NoError(t, err)
			var got string
			require.NoError(t, connect(t, url).QueryRow(t.Context(), "select current_database()").Scan(&got))
			require.Equal(t, tt.database, got)
			require.NoError(t, cluster.DropDatabase(t.Context(), tt.database))
		})
	}
}
