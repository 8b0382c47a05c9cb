package pgstore_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

var readerKeys = flag.Int("pgstore.keys", 20_000, "how many keys BenchmarkReader looks at")

// fillForReading makes n keys of one day, as a service leaves them. The youngest thousand are in progress. One in 20,000
// is unknown or quarantined, one in 100 is released and one in 200 is cancelled. One in two was claimed on behalf of a
// record, which has 16 children. The primary key is made last, which takes a fraction of the time.
func fillForReading(b *testing.B, look *pgxpool.Pool, n int) {
	b.Helper()
	exec(b, look, "alter table idempotency drop constraint idempotency_pkey")
	exec(b, look, `insert into idempotency (key, token, fence, effect, fingerprint_version, fingerprint, parent, route,
			created_at, lease_until, expires_at, state, status, replay_until, envelope)
		select gen_random_uuid(), gen_random_uuid(), 1, 2, 1, decode(md5(n::text) || md5(n::text), 'hex'),
			case when n % 2 = 0 then md5((n / 32)::text)::uuid end, case when n % 3 = 0 then 'POST /payments' end,
			now() - ($1 - n) * (interval '1 day' / $1), now() + case when $1 - n < 1000 then interval '1 hour' else interval '0' end, now() + n * (interval '7 days' / $1),
			case when $1 - n < 1000 then 1 when n % 40000 = 7 then 4 when n % 40000 = 8 then 5 when n % 100 = 9 then 3 when n % 200 = 10 then 6 else 2 end,
			201, now() + interval '1 day', convert_to(repeat('x', 200), 'utf8')
		from generate_series(1, $1::bigint) n`, n)
	exec(b, look, "alter table idempotency add primary key (key)")
	exec(b, look, `insert into idempotency_attention (created_at, noted_at, fence, key, state)
		select created_at, now(), fence, key, state from idempotency where state in (4, 5)`)
	exec(b, look, `insert into idempotency_audit (key, verb, actor, reason, from_state, to_state, fence)
		select key, 'resolve', 'ann', 'a reason', 4, 2, 2 from idempotency limit $1 / 100`, n)
	require.NoError(b, pgstore.AddReaderIndexes(b.Context(), look, ""))
	exec(b, look, "vacuum (analyze) idempotency, idempotency_attention, idempotency_audit")
}

// keysForReading returns a pool on a durable server with the keys of -pgstore.keys.
func keysForReading(b *testing.B) *pgxpool.Pool {
	b.Helper()
	cluster, err := pgtest.Start(b.Context(), pgtest.Config{Private: true, Durable: true, Settings: map[string]string{
		"shared_buffers": "1GB", "maintenance_work_mem": "512MB", "max_wal_size": "16GB", "checkpoint_timeout": "1h",
	}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Stop()) })
	url, err := cluster.CreateDatabase(b.Context(), "keys")
	require.NoError(b, err)
	look, err := pgxpool.New(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(look.Close)
	require.NoError(b, pgstore.Migrate(b.Context(), look, ""))
	start := time.Now()
	fillForReading(b, look, *readerKeys)
	b.Logf("%d keys were made in %v, in %s", *readerKeys, time.Since(start).Round(time.Second),
		queryRow[string](b, look, "select pg_size_pretty(pg_total_relation_size('idempotency'))"))
	return look
}

// BenchmarkReader prints the median of each question in milliseconds, with the keys of -pgstore.keys:
//
//	go test ./server/pgstore -run '^$' -bench 'BenchmarkReader$' -benchtime 20x -timeout 1h -pgstore.keys 10000000
func BenchmarkReader(b *testing.B) {
	look := keysForReading(b)
	r := openReader(b, look, pgstore.ReaderConfig{StatementTimeout: time.Minute})
	for _, q := range append(recordQuestions(b, r, look), browseQuestions(b, r, look)...) {
		b.Run(q.name, func(b *testing.B) {
			require.NoError(b, q.ask())
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				err := q.ask()
				took = append(took, time.Since(start))
				require.NoError(b, err)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-most")
		})
	}
}

// An asked question is one that a page asks a reader.
type askedQuestion struct {
	name string
	ask  func() error
}

// recordQuestions are for one record, and for the overview.
func recordQuestions(b *testing.B, r *pgstore.Reader, look *pgxpool.Pool) []askedQuestion {
	b.Helper()
	all := queryRow[[][16]byte](b, look, "select array_agg(key) from (select key from idempotency tablesample system (1) limit 1000) i")
	parents := queryRow[[][16]byte](b, look, "select array_agg(parent) from (select parent from idempotency tablesample system (1) where parent is not null limit 1000) i")
	one := func(of [][16]byte) store.ID { return of[rand.IntN(len(of))] }
	list := func(req store.ListRequest) error { _, err := r.List(b.Context(), req); return err }
	return []askedQuestion{
		{"show", func() error { _, err := r.Show(b.Context(), one(all)); return err }},
		{"children", func() error { return list(store.ListRequest{Parent: one(parents), Limit: 100}) }},
		{"attention", func() error { _, err := r.Attention(b.Context()); return err }},
		{"list-unknown", func() error { return list(store.ListRequest{States: []store.State{store.StateUnknown}, Limit: 100}) }},
		{"estimate", func() error { _, err := r.Estimate(b.Context()); return err }},
		{"overview", func() error {
			_, err := r.Attention(b.Context())
			_, err2 := r.Estimate(b.Context())
			_, err3 := r.Browse(b.Context(), store.BrowseRequest{Limit: 100})
			return errors.Join(err, err2, err3)
		}},
		{"audit", func() error { _, err := r.AuditPage(b.Context(), store.AuditRequest{Limit: 100}); return err }},
	}
}

// browseQuestions are pages of windows that end with the youngest record: making the keys may have taken longer than a
// window.
func browseQuestions(b *testing.B, r *pgstore.Reader, look *pgxpool.Pool) []askedQuestion {
	b.Helper()
	end := queryRow[time.Time](b, look, "select max(created_at) from idempotency").Add(time.Microsecond)
	browse := func(req store.BrowseRequest) func() error {
		req.Limit, req.To = 100, end
		return func() error { _, err := r.Browse(b.Context(), req); return err }
	}
	day := end.Add(-25 * time.Hour)
	questions := []askedQuestion{
		{"browse-day", browse(store.BrowseRequest{From: day})},
		{"browse-route", browse(store.BrowseRequest{From: day, Route: "POST /payments"})},
		{"browse-an-hour-of-no-route", browse(store.BrowseRequest{Route: "nothing"})},
		{"browse-ten-minutes-of-no-route", browse(store.BrowseRequest{From: end.Add(-10 * time.Minute), Route: "nothing"})},
	}
	for state := store.StateInProgress; state <= store.StateCancelled; state++ {
		questions = append(questions, askedQuestion{"browse-" + state.String(), browse(store.BrowseRequest{States: []store.State{state}})})
	}
	return questions
}
