package pgstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// openLogged opens a store of the database at url, as a user does, and returns what it logged.
func openLogged(t *testing.T, url string, settings map[string]string) (*pgstore.Store, map[string]any) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	for name, value := range settings {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	var log bytes.Buffer
	s, err := pgstore.Open(t.Context(), cfg, pgstore.Config{AllowNonDurable: true, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Check(t.Context()), "a readiness probe")
	lines := bytes.Split(bytes.TrimSpace(log.Bytes()), []byte("\n"))
	require.Len(t, lines, 1, "logged once: %s", log.String())
	line := map[string]any{}
	if len(lines[0]) > 0 {
		require.NoError(t, json.Unmarshal(lines[0], &line))
	}
	return s, line
}

func asyncStandbys(t *testing.T, s *pgstore.Store) int {
	t.Helper()
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	estimate, err := s.Reader().Estimate(t.Context())
	require.NoError(t, err)
	require.Equal(t, stats.AsyncStandbys, estimate.AsyncStandbys)
	return stats.AsyncStandbys
}

// makeAsynchronous lets the commits of new sessions wait for nobody.
func makeAsynchronous(t *testing.T, look *pgxpool.Pool) {
	t.Helper()
	giveUpStandby(t, look)
	until(t, "the standby is asynchronous", func() bool {
		return queryRow[bool](t, look, "select sync_state = 'async' and current_setting('synchronous_standby_names') = '' from pg_stat_replication")
	})
}

// An operator learns that a failover can lose acknowledged writes: when the store opens, and from its statistics at
// any time. Then a failover does lose them.
func TestOpen_warnsOfAsynchronousStandbys(t *testing.T) {
	t.Parallel()
	primary, standby, url := replicated(t)
	look, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), look, ""))

	s, line := openLogged(t, url, nil)
	require.Empty(t, line, "the standby confirms every commit")
	require.Zero(t, asyncStandbys(t, s))
	s, line = openLogged(t, url, map[string]string{"synchronous_commit": "local"})
	require.Equal(t, "WARN", line["level"], "the standby is synchronous, and this session does not wait for it")
	require.Equal(t, 1, asyncStandbys(t, s))

	makeAsynchronous(t, look)
	s, line = openLogged(t, url, nil)
	require.Equal(t, "WARN", line["level"])
	require.Contains(t, line["msg"], "failover can lose")
	require.EqualValues(t, 1, line["async_standbys"])
	require.Equal(t, 1, asyncStandbys(t, s))

	sender := queryRow[int](t, look, "select pid from pg_stat_replication")
	require.NoError(t, syscall.Kill(sender, syscall.SIGSTOP))
	o := claim(t, s)
	require.NoError(t, s.Settle(t.Context(), o, completion), "acknowledged")
	require.NoError(t, primary.Kill())
	require.NoError(t, syscall.Kill(sender, syscall.SIGKILL))
	require.NoError(t, standby.Promote(t.Context()))
	s, line = openLogged(t, url, nil)
	_, err = s.Read(t.Context(), o.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "what the warning was about")
	require.Empty(t, line, "the new primary has no standby")
}

// A standby that is away for a moment still counts if it has a slot. A subscriber of logical replication does not
// count.
func TestOpen_knowsStandbysFromOthers(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Settings: map[string]string{"wal_level": "logical"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	s, look := openAt(t, cluster)
	url := look.Config().ConnString()
	require.Zero(t, asyncStandbys(t, s))
	_, line := openLogged(t, url, nil)
	require.Empty(t, line, "a server by itself has nothing to fail over to")

	subscribe(t, cluster, look)
	require.Zero(t, asyncStandbys(t, s))
	exec(t, look, "select pg_create_physical_replication_slot('away')")
	require.Equal(t, 1, asyncStandbys(t, s))

	exec(t, look, "create role svc login password 'svc'")
	exec(t, look, "grant select, insert, update, delete on all tables in schema public to svc")
	_, line = openLogged(t, url, map[string]string{"role": "svc"})
	require.Equal(t, "WARN", line["level"], "a role without the rights of pg_monitor sees it too")
}

// subscribe makes a subscription to the database of look, and waits until it follows.
func subscribe(t *testing.T, cluster *pgtest.Cluster, look *pgxpool.Pool) {
	t.Helper()
	url, err := cluster.CreateDatabase(t.Context(), "subscriber")
	require.NoError(t, err)
	subscriber, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(subscriber.Close)
	exec(t, look, "create table story (id int)")
	exec(t, look, "create publication news for table story")
	exec(t, look, "select pg_create_logical_replication_slot('news', 'pgoutput')")
	exec(t, subscriber, "create table story (id int)")
	exec(t, subscriber, "create subscription news connection '"+look.Config().ConnString()+"' publication news with (create_slot = false)")
	t.Cleanup(func() { // else its worker keeps the slot, and the database
		ctx := context.WithoutCancel(t.Context())
		_, err := subscriber.Exec(ctx, "alter subscription news disable")
		require.NoError(t, err)
	})
	until(t, "the subscription follows", func() bool {
		return queryRow[bool](t, look, "select exists (select from pg_stat_replication where state = 'streaming')")
	})
}
