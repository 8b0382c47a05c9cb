package main

import (
	"maps"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

// startTestCluster is a bench's server for the time of a test.
func startTestCluster(t testing.TB, settings map[string]string) *cluster {
	t.Helper()
	c, err := startCluster(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.stop()) })
	return c
}

func TestCluster_isDurable(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, nil)
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var setting string
		require.NoError(t, c.look.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&setting))
		require.Equal(t, "on", setting, name)
	}
}

// sample counts known statements correctly.
func TestCluster_sample(t *testing.T) {
	t.Parallel()
	settings := maps.Clone(costSettings)
	settings["autovacuum"] = "off" // its transactions would be counted
	c := startTestCluster(t, settings)
	require.NoError(t, c.startCounting(t.Context()))
	config, err := c.database(t.Context())
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), "create table t (n int)")
	require.NoError(t, err)
	tests := []struct {
		name       string
		sql        []string
		statements float64
		commits    float64
	}{
		{"nothing", nil, 0, 0},
		{"reads", []string{"select 1", "select count(*) from t"}, 2, 0},
		{"a transaction that reads", []string{"begin", "select count(*) from t", "commit"}, 3, 0},
		{"a write", []string{"insert into t values (1)"}, 1, 1},
		{"a write that finds nothing", []string{"delete from t where n = 2"}, 1, 0},
		{"a transaction", []string{"begin", "insert into t values (1)", "insert into t values (2)", "commit"}, 4, 1},
	}
	for _, tt := range tests { // one after the other: each counts what the server did
		before, err := c.sample(t.Context())
		require.NoError(t, err)
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		for _, sql := range tt.sql {
			_, err = conn.Exec(t.Context(), sql)
			require.NoError(t, err, tt.name)
		}
		conn.Release()
		after, err := c.sample(t.Context())
		require.NoError(t, err)
		require.Equal(t, tt.statements, after.statements-before.statements, "statements of %s", tt.name)
		require.Equal(t, tt.commits, after.transactions-before.transactions, "commits of %s", tt.name)
		if tt.commits > 0 {
			require.Greater(t, after.walBytes, before.walBytes, "log of %s", tt.name)
		}
	}
}

// The counts do not depend on how fast or busy the machine is.
func TestMeasureCosts(t *testing.T) {
	t.Parallel()
	figures, err := measureCosts(t.Context(), startTestCluster(t, costSettings), effort{costRounds: 5, costRuns: 10}, contenders)
	require.NoError(t, err)
	require.Len(t, figures, len(contenders))
	want := map[string]struct{ statements, commits float64 }{
		ourSteps.name:  {steps + 1, steps + 1},
		dbosSteps.name: {33, 5},
	}
	for _, f := range figures {
		f.Judge()
		statements, commits, wal := f.Measures[0].Value, f.Measures[1].Value, f.Measures[2].Value
		require.Positive(t, wal, f.Name)
		if counts, ok := want[f.Name]; ok {
			// Engines look for unowned sagas now and then, which counts in a round of ten.
			require.InDelta(t, counts.statements, statements, 1, f.Name)
			require.InDelta(t, counts.commits, commits, 0.5, f.Name)
		} else {
			require.Equal(t, workflows.name, f.Name)
			require.Greater(t, statements, 50.)
		}
		if f.Name == ourSteps.name {
			require.Equal(t, benchkit.Good, f.Verdict, f.Values())
		}
	}
}
