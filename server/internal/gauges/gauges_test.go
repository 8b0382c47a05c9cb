package gauges_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/internal/gauges"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// emitted are the numbers that are known now, by their names.
func emitted(n *gauges.Numbers) map[string]float64 {
	known := make(map[string]float64)
	n.Each(func(g *gauges.Gauge, by string, value float64) {
		name := g.Name
		if by != "" {
			name += " " + by
		}
		known[name] = value
	})
	return known
}

// untilKnown returns the numbers as soon as each of names is among them.
func untilKnown(t *testing.T, n *gauges.Numbers, names ...string) (known map[string]float64) {
	t.Helper()
	require.Eventually(t, func() bool {
		known = emitted(n)
		for _, name := range names {
			if _, ok := known[name]; !ok {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
	return known
}

// openOne opens a store that has one connection: the server counts its statements in their order.
func openOne(t *testing.T, look *pgxpool.Pool) *pgstore.Store {
	t.Helper()
	cfg := look.Config()
	cfg.MaxConns = 1
	s, err := pgstore.Open(t.Context(), cfg, pgstore.Config{AllowNonDurable: true})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// A scan is how much of the records the server has read.
type scan struct{ whole, rows, fetched int64 }

func scanned(t *testing.T, look *pgxpool.Pool) (s scan) {
	t.Helper()
	require.NoError(t, look.QueryRow(t.Context(), `select seq_scan, seq_tup_read, coalesce(idx_tup_fetch, 0)
		from pg_stat_user_tables where relid = 'idempotency'::regclass`).Scan(&s.whole, &s.rows, &s.fetched))
	return s
}

const (
	many    = 100_000 // records
	unknown = 3_000   // of these
)

// fill makes records of which a quarter has expired, and a note for each that needs a person. It returns when the server has
// counted what that read.
func fill(t *testing.T, look *pgxpool.Pool, indexed bool) {
	t.Helper()
	cfg := look.Config()
	cfg.ConnConfig.RuntimeParams["application_name"] = t.Name()
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() {
		pool.Close()
		require.Eventually(t, func() bool { // a connection that ends tells what it has read
			var left int
			require.NoError(t, look.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = $1", t.Name()).Scan(&left))
			return left == 0
		}, time.Minute, 10*time.Millisecond)
	}()
	for _, sql := range []string{
		fmt.Sprintf(`insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at, replay_until, status)
			select gen_random_uuid(), gen_random_uuid(), 1, case when n <= %d then 4 when n %% 50 = 0 then 1 else 2 end, 2, 1,
				now() - n * interval '1 second', now() + interval '1 hour', now() + (n %% 4 - 1) * interval '1 hour' + interval '1 minute', now() - interval '1 day', 200
			from generate_series(1, %d) n`, unknown, many),
		`insert into idempotency_attention (created_at, noted_at, fence, key, state)
			select created_at, now(), fence, key, state from idempotency where state = 4`,
		"vacuum analyze idempotency, idempotency_attention",
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	if indexed {
		require.NoError(t, pgstore.AddReaderIndexes(t.Context(), pool, ""))
	}
}

// What a scrape asks of Postgres reads a bounded part of the records, and no table as a whole. The count of StatsEvery is the
// control: the server sees that it reads everything.
func TestNumbers_readsNoTable(t *testing.T) {
	t.Parallel()
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexed %t", indexed), func(t *testing.T) {
			t.Parallel()
			look := pgtest.NewPool(t, pgstore.Migrate)
			fill(t, look, indexed)
			s := openOne(t, look)
			before := scanned(t, look)
			n := gauges.Watch(s, 0)
			defer n.Stop()
			known := untilKnown(t, n, gauges.Up.Name, gauges.Size.Name)
			require.EqualValues(t, 1, known[gauges.Up.Name])
			require.EqualValues(t, store.AttentionLimit, known[gauges.Attention.Name+" unknown"])
			require.InDelta(t, many, known[gauges.Estimated.Name], many/100)
			require.Greater(t, known[gauges.SweepLag.Name], time.Hour.Seconds()-120)
			if indexed {
				require.Positive(t, known[gauges.OldestRun.Name])
			} else {
				require.NotContains(t, known, gauges.OldestRun.Name)
			}
			require.NotContains(t, known, gauges.Records.Name+" completed")

			counting := gauges.Watch(s, time.Hour)
			defer counting.Stop()
			known = untilKnown(t, counting, gauges.Records.Name+" unknown")
			require.EqualValues(t, unknown, known[gauges.Records.Name+" unknown"])
			var after scan
			s.Close() // so that the server tells at once what the connection has read
			require.Eventually(t, func() bool {
				after = scanned(t, look)
				return after.rows-before.rows >= many
			}, time.Minute, 50*time.Millisecond)
			t.Logf("of %d records, the gauges fetched %d by index, and the count read %d", many, after.fetched-before.fetched, after.rows-before.rows)
			require.EqualValues(t, many, after.rows-before.rows, "only the count reads the table")
			require.LessOrEqual(t, after.fetched-before.fetched, int64(2*(store.AttentionLimit+10_000+store.MaxYoung)), "both Numbers")
		})
	}
}
