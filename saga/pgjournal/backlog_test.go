package pgjournal_test

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

var backlog = flag.Int("pgjournal.backlog", 10_000, "how many sagas wait in BenchmarkBacklog")

// The kinds of waiting sagas.
const (
	due      = "clock_timestamp() - interval '1 hour' + i * interval '1 millisecond'"
	sleeping = "clock_timestamp() + interval '1 hour' + i * interval '1 millisecond'"
)

// fill stores sagas of a plan without an engine, as a loader does.
func fill(tb testing.TB, look *pgxpool.Pool, n int, plan journal.PlanHash, wakeAt string) {
	tb.Helper()
	exec(tb, look, `insert into saga (created_at, version, id, plan, input_hash, name, scope, key, input, fence, engine, status, clean, revision, wake_at)
		select clock_timestamp() - interval '1 hour' + i * interval '1 millisecond', 1, gen_random_uuid(), $1, sha256('x'), 'checkout', '', 'k-' || i,
			'{"sku":"a-1","cents":100}', 0, '00000000-0000-0000-0000-000000000000', 1, true, 1, `+wakeAt+`
		from generate_series(1, $2) i`, plan[:], n)
}

// withoutStatistics keeps the server from analyzing the tables by itself.
func withoutStatistics(tb testing.TB, look *pgxpool.Pool) {
	tb.Helper()
	exec(tb, look, "alter table saga set (autovacuum_enabled = off)")
	exec(tb, look, "alter table saga_engine set (autovacuum_enabled = off)")
}

// A spy remembers the statements on the table of sagas, with their arguments.
type spy struct{ sent []pgx.TraceBatchQueryData }

func (s *spy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (s *spy) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (s *spy) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *spy) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
func (s *spy) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.sent = append(s.sent, q)
}

var (
	manyRows = regexp.MustCompile(`(actual .* rows=|Removed by Filter: )\d{4,}`)
	fullScan = regexp.MustCompile(`(Seq|Bitmap \w+) Scan on (public\.)?saga\b`)
	compiled = regexp.MustCompile(`(?m)^\s*JIT:`)
)

// Claims and Stats look sagas up by the indexes, with statistics and without, and the server
// does not compile them. The plans are those of the statements as they were sent, behind the
// settings that were sent with them.
func TestPlans_ofABacklog(t *testing.T) {
	t.Parallel()
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprintf("analyzed=%v", analyzed), func(t *testing.T) {
			t.Parallel()
			s := new(spy)
			j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.ConnConfig.Tracer = 1, s })
			withoutStatistics(t, look)
			other := journal.PlanHash{1}
			fill(t, look, 5000, aPlan, due)
			fill(t, look, 5000, other, sleeping)
			fill(t, look, 5000, journal.PlanHash{2}, due) // the engine lacks their definition
			gone := beat(t, j, time.Hour)
			require.NoError(t, j.Leave(t.Context(), gone))
			exec(t, look, "update saga set engine = $1, fence = 1, wake_at = null, clean = false where plan = $2", gone, (&journal.PlanHash{2})[:])
			lapsed := beat(t, j, time.Hour)
			for range 5 {
				start(t, j, lapsed)
			}
			require.NoError(t, j.Leave(t.Context(), lapsed))
			if analyzed {
				exec(t, look, "analyze")
			}
			engine := beat(t, j, time.Hour)
			s.sent = nil
			_, err := j.Claim(t.Context(), journal.ClaimRequest{
				Engine: engine, Plans: []journal.PlanHash{aPlan, other}, Deferred: []journal.PlanHash{aPlan}, Limit: 100, Backoff: time.Minute,
			})
			require.NoError(t, err)
			_, err = j.Stats(t.Context())
			require.NoError(t, err)
			explained := 0
			for i, q := range s.sent {
				if i == 0 || !strings.Contains(s.sent[i-1].SQL, "enable_seqscan") {
					continue
				}
				plan := explain(t, look, s.sent[i-1], q)
				require.NotRegexp(t, fullScan, plan)
				require.NotRegexp(t, compiled, plan)
				require.Regexp(t, `Index (Only )?Scan using saga_\w+ on saga`, plan)
				if explained++; explained < 3 {
					require.NotRegexp(t, manyRows, plan, "what the engine cannot claim is read")
				}
			}
			require.Equal(t, 3, explained, "the look, the claim and Stats")
		})
	}
}

// explain returns the plan of a statement that follows settings. It runs the statement and
// changes no data.
func explain(t *testing.T, look *pgxpool.Pool, settings, st pgx.TraceBatchQueryData) string {
	t.Helper()
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), settings.SQL, settings.Args...)
	require.NoError(t, err)
	rows, err := tx.Query(t.Context(), "explain (analyze, costs off) "+st.SQL, st.Args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// BenchmarkBacklog measures a claim of a hundred sagas, and Stats, beside a backlog of other
// sagas. The sagas of the backlog are due, asleep, or of a definition that this engine lacks.
// Some of them belong to a dead engine. It measures with statistics and without. The flag
// pgjournal.backlog is the size of the backlog.
func BenchmarkBacklog(b *testing.B) {
	for _, kind := range []struct {
		name, wakeAt string
		plan         journal.PlanHash
	}{{"due", due, aPlan}, {"asleep", sleeping, aPlan}, {"deferred", due, journal.PlanHash{1}}, {"stranded", due, journal.PlanHash{1}}} {
		for _, analyzed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/analyzed=%v", kind.name, analyzed), func(b *testing.B) {
				j, look := open(b, pgjournal.Config{})
				withoutStatistics(b, look)
				fill(b, look, *backlog, kind.plan, kind.wakeAt)
				if kind.name == "stranded" { // with an engine that is gone
					gone := beat(b, j, time.Hour)
					require.NoError(b, j.Leave(b.Context(), gone))
					exec(b, look, "update saga set engine = $1, fence = 1, wake_at = null, clean = false", gone)
				}
				if analyzed {
					exec(b, look, "analyze")
				}
				engine := beat(b, j, 10*time.Hour)
				b.Run("claim", func(b *testing.B) {
					b.ReportAllocs()
					claimed := 0
					for b.Loop() {
						b.StopTimer()
						if kind.name != "due" { // else there are enough
							fill(b, look, 100, aPlan, due)
						}
						b.StartTimer()
						got, err := j.Claim(b.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 100})
						require.NoError(b, err)
						claimed += len(got)
					}
					b.ReportMetric(float64(claimed)/float64(b.N), "sagas/op")
				})
				b.Run("stats", func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						_, err := j.Stats(b.Context())
						require.NoError(b, err)
					}
				})
			})
		}
	}
}
