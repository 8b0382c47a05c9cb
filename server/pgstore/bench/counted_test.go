package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// All statements of the counted role are counted, and no others.
func TestDatabase_sent(t *testing.T) {
	t.Parallel()
	on := newPostgres(t)
	require.NoError(t, on.uncounted, "pg_stat_statements comes with the server's package")
	db := openDatabase(t, on, someTable)
	counted, err := db.toCounted()
	require.NoError(t, err)
	for _, tt := range []struct {
		name string
		db   *database
		want float64
	}{{"counted", counted, 4}, {"not counted", db, 0}} {
		pool, err := tt.db.pool(t.Context(), 1)
		require.NoError(t, err)
		before, err := db.sent(t.Context())
		require.NoError(t, err)
		transactions, err := db.commits(t.Context())
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), "insert into it values ($1)", 1)
		require.NoError(t, err)
		require.NoError(t, script("begin; insert into it values (2); commit")(t.Context(), pool))
		pool.Close()
		after, err := db.sent(t.Context())
		require.NoError(t, err)
		require.InDelta(t, tt.want, after-before, 0, tt.name)
		committed, err := db.commits(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 3, committed-transactions, 1, "%s: two, and those that begin the session and prepare a statement", tt.name)
	}
}

// A server that cannot count is measured all the same, but for the counts.
func TestStartCluster_uncounted(t *testing.T) {
	t.Parallel()
	cluster, uncounted, err := startCluster(t.Context(), "", "no_such_library")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	require.ErrorContains(t, uncounted, "the server lacks no_such_library")

	p := &postgres{cluster: cluster, uncounted: uncounted}
	require.NoError(t, p.connect(t.Context()))
	t.Cleanup(p.look.Close)
	db := openDatabase(t, p, someTable)
	counted, err := db.toCounted()
	require.NoError(t, err)
	sent, err := counted.sent(t.Context())
	require.NoError(t, err)
	require.Zero(t, sent)
	l := &lab{fast: p}
	require.NoError(t, l.missingCounts(), "nobody asked for a count")
	require.Empty(t, counted.statements("statements", []float64{1}, nil))
	require.ErrorContains(t, l.missingCounts(), "no_such_library")
}
