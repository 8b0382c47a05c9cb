package pgjournal_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// A journal that a failover can rob of sagas says so, once, when it opens.
func TestOpen_warnsOfAsynchronousStandbys(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	cfg, err := pgxpool.ParseConfig(cluster.URL("postgres"))
	require.NoError(t, err)
	look, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgjournal.Migrate(t.Context(), look, ""))
	warnings := func() int {
		var log bytes.Buffer
		j, err := pgjournal.Open(t.Context(), cfg, pgjournal.Config{AllowNonDurable: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer j.Close()
		require.NoError(t, j.Check(t.Context()))
		return strings.Count(log.String(), "level=WARN")
	}
	require.Zero(t, warnings(), "a server by itself has nothing to fail over to")
	exec(t, look, "select pg_create_physical_replication_slot('standby')")
	require.Equal(t, 1, warnings())
}
