package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// cluster starts a server of its own with these settings, with the tables on
// it, and returns a pool to look at them with, whose commits wait
// for nobody.
func cluster(t *testing.T, settings map[string]string) *pgxpool.Pool {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Settings: settings})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	cfg, err := pgxpool.ParseConfig(c.URL("postgres"))
	require.NoError(t, err)
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "local"
	look, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(look.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), look))
	return look
}

// A duplicate writes nothing at all, whatever the record's state; and each
// completion is a HOT update. Alone on its server, since both are counted there.
func TestStore_writes(t *testing.T) {
	t.Parallel()
	look := cluster(t, map[string]string{"autovacuum": "off", "checkpoint_timeout": "1h", "track_counts": "on", "bgwriter_lru_maxpages": "0", "wal_level": "minimal", "max_wal_senders": "0"})
	s := openOn(t, look, pgstore.Config{})
	const n = 500
	for range n {
		require.NoError(t, s.Settle(t.Context(), claim(t, s), completion))
	}
	done, running := claim(t, s), claim(t, s)
	require.NoError(t, s.Settle(t.Context(), done, completion))

	duplicates := func() {
		for range 100 {
			for _, o := range []server.Owner{done, running} {
				_, won, err := s.Claim(t.Context(), claimOf(o.ID))
				require.NoError(t, err)
				require.False(t, won)
			}
		}
	}
	duplicates() // sets hint bits, which may be WAL, and fills the catalog caches
	const position = "select pg_current_wal_insert_lsn()::text || ' ' || pg_snapshot_xmax(pg_current_snapshot())::text"
	quiet := false
	for range 5 { // the server writes a line of its own now and then
		before := queryRow[string](t, look, position)
		duplicates()
		after := queryRow[string](t, look, position)
		if quiet = before == after; quiet {
			break
		}
		t.Logf("WAL position and next transaction were %s, are %s", before, after)
	}
	require.True(t, quiet, "200 duplicates wrote WAL or used transaction ids, five times")

	s.Close() // sessions report their statistics as they end
	until(t, "the statistics are there", func() bool {
		return queryRow[int](t, look, "select n_tup_upd from pg_stat_user_tables where relname = 'idempotency'") == n+1
	})
	hot := queryRow[int](t, look, "select n_tup_hot_upd from pg_stat_user_tables where relname = 'idempotency'")
	if hot*100 < (n+1)*99 {
		t.Errorf("%d of %d completions were HOT, want 99 %%", hot, n+1)
	}
}
