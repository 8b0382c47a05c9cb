package pgjournal_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// Every flush of starts or other writes stays on one node. A commit on two of them would have two phases, of
// which the coordinator keeps a note for a while.
func TestDistributed_flushesStayOnOneNode(t *testing.T) {
	t.Parallel()
	look := distributedTables(t)
	var mu sync.Mutex
	var processes []int32 // of the journal's connections, on the coordinator
	j := openOn(t, look, pgjournal.Config{}, func(cfg *pgxpool.Config) {
		connected := cfg.AfterConnect
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			mu.Lock()
			defer mu.Unlock()
			processes = append(processes, int32(conn.PgConn().PID())) //nolint:gosec // Postgres counts it so
			if connected == nil {
				return nil
			}
			return connected(ctx, conn)
		}
	})
	const callers, each = 32, 5
	engine := newEngine()
	together(callers, func(int) {
		for range each {
			r, _, err := j.Start(t.Context(), newRequest(engine))
			if err == nil {
				err = j.Append(t.Context(), ownerOf(r), journal.Write{Revision: 2, Entries: []journal.Entry{completed("a.b")}})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	require.Equal(t, callers*each, queryRow[int](t, look, "select count(*) from saga where revision = 2"))
	require.Greater(t, queryRow[int](t, look, "select count(distinct nodename || nodeport) from citus_shards where table_name = 'saga'::regclass"), 1,
		"with one node there is nothing to see")
	const twoPhases = "select count(*) from pg_dist_transaction where split_part(gid, '_', 3)::int = any ($1)"
	require.Zero(t, queryRow[int](t, look, twoPhases, processes))
}
