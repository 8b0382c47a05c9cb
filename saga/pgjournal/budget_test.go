package pgjournal_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// together runs fn n times at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

// An engine runs sagas of three steps, one at a time, and the test counts their cost. The test
// has a server of its own, because the server's counts of commits and WAL include all activity.
// Heartbeats and searches for unowned sagas are included.
//
// Keys are random, so a page of an index splits in some runs of the test and not in others. A split logs up to half
// a page, which is 20 bytes for each of 200 sagas. The limits have room for three of them.
func TestBudget(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), pgtest.Config{Private: true, Settings: map[string]string{
		"autovacuum": "off", "checkpoint_timeout": "1h", "bgwriter_delay": "10s", "full_page_writes": "off",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	_, look := openAt(t, cluster, pgjournal.Config{})
	for _, tt := range []struct {
		definition                     *saga.Definition[journey, ticket]
		statements, commits, walPerRun float64
	}{
		{trip, 5, 4, 1550},
		{idle, 5, 4, 1450},
	} {
		t.Run(tt.definition.Name(), func(t *testing.T) { // not parallel: the server counts for all
			exec(t, look, "truncate "+strings.Join(tables, ", ")) // a deeper index logs more
			c := new(counter)
			j := openOn(t, look, pgjournal.Config{}, c.under, func(cfg *pgxpool.Config) { cfg.MaxConns = 4 })
			e := engineWith(t, j, newCallees(t), saga.Config{Poll: time.Hour, Lease: time.Hour})
			run := func() {
				key := childkey.MustNew()
				_, err := tt.definition.Run(t.Context(), e, key, journey{Trip: key.String()})
				require.NoError(t, err)
			}
			run() // opens connections
			const runs = 200
			lsn := queryRow[string](t, look, "select pg_current_wal_insert_lsn()::text")
			xid := queryRow[int64](t, look, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
			statements := c.count(func() {
				for range runs {
					run()
				}
			})
			commits := queryRow[int64](t, look, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint") - xid
			wal := queryRow[float64](t, look, "select (pg_current_wal_insert_lsn() - $1::pg_lsn)::float8", lsn)
			per := func(n float64) string { return fmt.Sprintf("%.2f", n/runs) }
			t.Logf("per run: %s statements, %s commits that write, %s bytes of WAL", per(float64(statements)), per(float64(commits)), per(wal))
			require.LessOrEqual(t, float64(statements)/runs, tt.statements, "statements")
			require.LessOrEqual(t, float64(commits)/runs, tt.commits, "commits that write")
			require.LessOrEqual(t, wal/runs, tt.walPerRun, "bytes of WAL")
		})
	}
}
