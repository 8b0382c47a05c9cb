package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgtest"
)

// The command's own statements about keys and sagas read by an index. Small tables are scanned in any case, so the
// planner is told to avoid scans: it then scans only where no index serves.
func TestStatements_readByIndex(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "set enable_seqscan = off")
	require.NoError(t, err)
	for _, c := range []struct {
		migrations, index string
		ids               [][2]string // tables with IDs, and their columns
	}{
		{"keys", "idempotency_expires_at", [][2]string{{"idempotency", "key"}, {"idempotency_audit", "key"}}},
		{"sagas", "saga_finished", [][2]string{{"saga", "id"}, {"saga_audit", "saga"}}},
	} {
		picked, err := pickComponents([]string{c.migrations})
		require.NoError(t, err)
		steps, err := picked[0].steps()
		require.NoError(t, err)
		for _, s := range steps {
			_, err := conn.Exec(ctx, s.sqlUp)
			require.NoError(t, err)
		}
		for _, ids := range c.ids {
			var text string
			require.NoError(t, conn.QueryRow(ctx, "explain (format json) "+idRange("", ids[0], ids[1]), [16]byte{1}, [16]byte{2}, 10).Scan(&text))
			require.NotContains(t, text, "Seq Scan", ids)
			require.Contains(t, text, "Index Cond", ids)
		}
		e := expired[c.migrations]
		plan := func() (text string) {
			count := fmt.Sprintf("explain (format json) select count(*) from (select from %s where %s limit %d) e", e.table, e.rows, manyRows)
			require.NoError(t, conn.QueryRow(ctx, count, time.Duration(0)).Scan(&text))
			return text
		}
		require.NotContains(t, plan(), "Seq Scan")
		require.Contains(t, plan(), c.index)
		_, err = conn.Exec(ctx, "drop index "+c.index)
		require.NoError(t, err)
		require.Contains(t, plan(), "Seq Scan", "the test sees no scan")
	}
}
