package pgstore_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/gauges"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// recurringRecords is how many records TestRecurring has: the long form has 10 million, with 100,000 notes.
var recurringRecords = flag.Int("records", 100_000, "how many records TestRecurring makes; a hundredth of them have notes")

// sweptNotes is how many notes TestSweep_notes makes; the long form has 100,000.
var sweptNotes = flag.Int("notes", 10_000, "how many notes TestSweep_notes makes")

// mostBuffers is how many pages of 8 kB a statement that recurs may touch at any size of the tables:
// 10,000 records and the pages of their index.
const mostBuffers = 60_000

// Statements that are sent again and again, by sweepers, reconcilers, scrapes, pages and commands, read a bounded part of
// the records.
func TestRecurring_readsABoundedPart(t *testing.T) {
	t.Parallel()
	look := pgtest.NewPool(t, migrateForReaders)
	s := openOn(t, look, pgstore.Config{})
	r := openReader(t, look, pgstore.ReaderConfig{StatementTimeout: time.Minute})
	const batch = 1_000_000
	for done := 0; done < *recurringRecords; done += batch {
		exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at, status, replay_until, answer_until, envelope, route)
			select gen_random_uuid(), gen_random_uuid(), 1, case when n % 100 = 0 then 4 else 2 end, case when n % 3 = 0 then 1 else 3 end, 1,
				now() - n * interval '50 ms', now(), now() + interval '7 days' - n * interval '50 ms', 200, now(), now() + interval '1 day', 'answer', 'charge'
			from generate_series($1::bigint, $2) n`, done, min(done+batch, *recurringRecords)-1)
	}
	exec(t, look, "insert into idempotency_attention (created_at, noted_at, fence, key, state) select created_at, now() - interval '1 h', fence, key, state from idempotency where state = 4")
	exec(t, look, "vacuum analyze idempotency, idempotency_attention")
	settings, err := r.Settings(t.Context())
	require.NoError(t, err)
	questions, err := r.Questions(t.Context(), random(), random())
	require.NoError(t, err)
	recurring, err := s.Recurring()
	require.NoError(t, err)
	conn, err := look.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	notes := *recurringRecords / 100
	for _, q := range append(questions, recurring...) {
		switch q.Name { // a person asks these, and they end with the StatementTimeout
		case "browse of a rare state", "browse of everything":
			continue
		}
		root, err := explain(t.Context(), conn.Conn(), settings, q, "auto", "analyze", "buffers")
		require.NoError(t, err, q.Name)
		t.Logf("%-20s %7.1f ms, %d buffers", q.Name, root.Time, root.Hit+root.Read)
		require.LessOrEqual(t, root.Hit+root.Read, mostBuffers, q.Name)
		root.walk(func(n *planNode) {
			if n.Relation == "idempotency" {
				require.NotEqual(t, "Seq Scan", n.Type, q.Name)
				require.LessOrEqual(t, n.Removed*n.Loops, 10_000.0+float64(notes), "%s: rows removed by a filter", q.Name)
			}
		})
	}
	began := time.Now()
	all, err := s.Reader().List(t.Context(), store.ListRequest{States: []store.State{store.StateInProgress, store.StateUnknown}, Effect: store.Opaque, Limit: 1000})
	require.NoError(t, err)
	t.Logf("the reconciler's list: %v for %d records", time.Since(began), len(all))
}

// untilGauges returns the numbers, by gauge and attribute, as soon as those of the given names are known.
func untilGauges(t *testing.T, n *gauges.Numbers, names ...string) (known map[string]float64) {
	t.Helper()
	until(t, "the numbers are known", func() bool {
		known = make(map[string]float64)
		n.Each(func(g *gauges.Gauge, by string, value float64) { known[strings.TrimSpace(g.Name+" "+by)] = value })
		return !slices.ContainsFunc(names, func(name string) bool { _, ok := known[name]; return !ok })
	})
	return known
}

const (
	gaugedRecords = 100_000
	gaugedUnknown = 3_000 // of these
)

// fillForGauges makes records of which a quarter has expired, and a note for each that needs a person.
func fillForGauges(t *testing.T, look *pgxpool.Pool, indexed bool) {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), look.Config())
	require.NoError(t, err)
	defer pool.Close()
	exec(t, pool, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at, replay_until, status)
		select gen_random_uuid(), gen_random_uuid(), 1, case when n <= $1 then 4 when n % 50 = 0 then 1 else 2 end, 2, 1,
			now() - n * interval '1 second', now() + interval '1 hour', now() + (n % 4 - 1) * interval '1 hour' + interval '1 minute', now() - interval '1 day', 200
		from generate_series(1, $2) n`, gaugedUnknown, gaugedRecords)
	exec(t, pool, `insert into idempotency_attention (created_at, noted_at, fence, key, state)
		select created_at, now(), fence, key, state from idempotency where state = 4`)
	exec(t, pool, "vacuum analyze idempotency, idempotency_attention")
	if indexed {
		require.NoError(t, pgstore.AddReaderIndexes(t.Context(), pool, ""))
	}
}

// recordsRead returns how many records all sessions that have ended read in scans of the table, and by indexes.
func recordsRead(t *testing.T, look *pgxpool.Pool) (scanned, fetched int64) {
	t.Helper()
	untilReported(t, look)
	const counts = "select seq_tup_read, coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relid = 'idempotency'::regclass"
	require.NoError(t, look.QueryRow(t.Context(), counts).Scan(&scanned, &fetched))
	return scanned, fetched
}

// What a scrape asks reads a bounded part of the records, and no table as a whole. The count of StatsEvery is the control: the
// server sees that it reads everything.
func TestRecurring_gauges(t *testing.T) {
	t.Parallel()
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexed %t", indexed), func(t *testing.T) {
			t.Parallel()
			look := pgtest.NewPool(t, pgstore.Migrate)
			fillForGauges(t, look, indexed)
			scanned, fetched := recordsRead(t, look)
			s := openOn(t, look, pgstore.Config{})
			n := gauges.Watch(s, 0)
			known := untilGauges(t, n, gauges.Up.Name, gauges.Size.Name)
			n.Stop()
			s.Close()
			require.EqualValues(t, 1, known[gauges.Up.Name])
			require.EqualValues(t, store.AttentionLimit, known[gauges.Attention.Name+" unknown"])
			require.InDelta(t, gaugedRecords, known[gauges.Estimated.Name], gaugedRecords/100)
			require.InDelta(t, time.Hour.Seconds(), known[gauges.SweepLag.Name], 120)
			require.NotContains(t, known, gauges.Records.Name+" unknown", "nobody asked for a count")
			_, found := known[gauges.OldestRun.Name]
			require.Equal(t, indexed, found, "the age of the oldest run needs the index of times")
			scannedNow, fetchedNow := recordsRead(t, look)
			t.Logf("of %d records, %d were fetched by indexes", gaugedRecords, fetchedNow-fetched)
			require.Zero(t, scannedNow-scanned, "records read by a scan of the table")
			require.LessOrEqual(t, fetchedNow-fetched, int64(store.AttentionLimit+10_000+store.MaxYoung))

			s = openOn(t, look, pgstore.Config{})
			n = gauges.Watch(s, time.Hour)
			known = untilGauges(t, n, gauges.Records.Name+" unknown")
			n.Stop()
			s.Close()
			require.EqualValues(t, gaugedUnknown, known[gauges.Records.Name+" unknown"])
			scanned, _ = recordsRead(t, look)
			require.EqualValues(t, gaugedRecords, scanned-scannedNow)
		})
	}
}

// One sweep looks at a bounded number of notes, and the next one goes on there: so the stale ones go, wherever they are.
func TestSweep_notes(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{})
	exec(t, look, `insert into idempotency (key, token, fence, state, effect, fingerprint_version, created_at, lease_until, expires_at)
		select gen_random_uuid(), gen_random_uuid(), 1, 4, 2, 1, now() - n * interval '1 second', now(), now() + interval '1 day' from generate_series(1, $1::int) n`, *sweptNotes)
	exec(t, look, `insert into idempotency_attention (created_at, noted_at, fence, key, state)
		select created_at, now() - interval '1 hour', fence, key, state from idempotency`)
	exec(t, look, "delete from idempotency where key = any (array(select key from idempotency order by created_at desc limit 10))") // the last notes
	exec(t, look, "vacuum analyze idempotency, idempotency_attention")
	notes := func() int { return queryRow[int](t, look, "select count(*) from idempotency_attention") }

	rows, err := look.Query(t.Context(), "select key from idempotency_attention order by created_at limit $1", pgstore.NoteWindow)
	require.NoError(t, err)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	require.NoError(t, err)
	recurring, err := s.Recurring(keys...)
	require.NoError(t, err)
	conn, err := look.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, q := range recurring {
		if q.Name != "stale notes" && q.Name != "sweep attention" {
			continue
		}
		root, err := explain(t.Context(), conn.Conn(), pgstore.Question{SQL: "select 1"}, q, "auto", "analyze")
		require.NoError(t, err)
		root.walk(func(n *planNode) {
			if n.Relation != "" {
				require.LessOrEqual(t, (n.Rows+n.Removed)*n.Loops, float64(pgstore.NoteWindow), "%s: rows of %s", q.Name, n.Relation)
			}
		})
	}
	windows := *sweptNotes/pgstore.NoteWindow + 1
	for n := 1; notes() == *sweptNotes; n++ {
		require.LessOrEqual(t, n, windows, "all windows were looked at")
		_, err := s.Sweep(t.Context(), 100)
		require.NoError(t, err)
	}
	require.Equal(t, *sweptNotes-10, notes())
}
