package pgjournal_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
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

// endEngines stores the leases of n engines that ended within the last day, and of no sagas. Every second
// engine has left.
func endEngines(tb testing.TB, look *pgxpool.Pool, n int) {
	tb.Helper()
	exec(tb, look, `insert into saga_engine (id, lease_until, has_left)
		select gen_random_uuid(), clock_timestamp() - i * interval '1 second', i % 2 = 0 from generate_series(1, $1) i`, n)
}

// planRow is a line of a plan for the rows of a table.
var planRow = regexp.MustCompile(`(?m)on (?:public\.)?saga\w*(?: \w+)? \(actual .*rows=([\d.]+) loops=(\d+)\)|Removed by Filter: (\d+)`)

// rowsRead is how many rows of the tables a plan read.
func rowsRead(t *testing.T, plan string) (read float64) {
	t.Helper()
	for _, m := range planRow.FindAllStringSubmatch(plan, -1) {
		var rows, loops, removed float64
		_, _ = fmt.Sscan(m[1], &rows)
		_, _ = fmt.Sscan(m[2], &loops)
		_, _ = fmt.Sscan(m[3], &removed)
		read += rows*loops + removed
	}
	require.Positive(t, read, plan)
	return read
}

// Engines that ended and own no saga any more cost a claim nothing, and nor does Stats read them. They
// read the living engines, and those that lapsed with a saga.
func TestPlans_ofEndedEngines(t *testing.T) {
	t.Parallel()
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprintf("analyzed=%v", analyzed), func(t *testing.T) {
			t.Parallel()
			s := new(spy)
			j, look := open(t, pgjournal.Config{}, func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.ConnConfig.Tracer = 1, s })
			withoutStatistics(t, look)
			endEngines(t, look, 3000)
			const living = 3
			engine := beat(t, j, time.Hour)
			for range 50 {
				start(t, j, engine)
			}
			for range living - 1 {
				start(t, j, beat(t, j, time.Hour))
			}
			lapsed := start(t, j, beat(t, j, time.Hour))
			require.NoError(t, j.Leave(t.Context(), lapsed.Engine))
			if analyzed {
				exec(t, look, "analyze")
			}
			s.sent = nil
			claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 1, Backoff: time.Minute})
			require.NoError(t, err)
			require.Len(t, claimed, 1)
			require.Equal(t, lapsed.ID, claimed[0].ID)
			ofClaim := s.sent[:2]
			s.sent = nil
			st, err := j.Stats(t.Context())
			require.NoError(t, err)
			require.Zero(t, st.Unowned)
			for name, sent := range map[string][]pgx.TraceBatchQueryData{"the look of a claim": ofClaim, "Stats": s.sent} {
				plan := explain(t, look, sent[0], sent[1])
				require.Less(t, rowsRead(t, plan), 500.0, "%s reads ended engines:\n%s", name, plan) // Stats counts the sagas twice
			}
			// Distributed tables have no such settings. Their nodes pass over the sagas of living engines.
			text, err := pgkit.DistributedText(os.DirFS("."), "query/claimable.sql")
			require.NoError(t, err)
			rows, err := look.Query(t.Context(), "explain (analyze, costs off) "+strings.ReplaceAll(text, "/*schema*/", ""), pgx.NamedArgs{
				"engine": [16]byte(engine), "plan": aPlan[:], "deferred": true, "limit": 100, "backoff": time.Minute, "passed": [][16]byte{},
			})
			require.NoError(t, err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			plan := strings.Join(lines, "\n")
			require.Less(t, rowsRead(t, plan), 500.0, "ended engines are read:\n%s", plan)
		})
	}
}

// A claim finds the sagas of each engine that lapsed or left, wherever its ID is among those of living
// ones.
func TestClaim_betweenLivingEngines(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{})
	endEngines(t, look, 20)
	var ended []journal.EngineID
	want := make(map[journal.ID]bool)
	engine := beat(t, j, time.Hour)
	for i := range 40 {
		e := beat(t, j, time.Hour)
		for range i % 3 {
			id := start(t, j, e).ID
			if i%4 < 2 {
				want[id] = true
			}
		}
		if i%4 < 2 {
			ended = append(ended, e)
		}
	}
	for i, e := range ended {
		if i%2 == 0 {
			require.NoError(t, j.Leave(t.Context(), e))
		} else {
			exec(t, look, "update saga_engine set lease_until = clock_timestamp() where id = $1", [16]byte(e))
		}
	}
	st, err := j.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, len(want), st.Unowned)
	claimed, err := j.Claim(t.Context(), journal.ClaimRequest{Engine: engine, Plans: []journal.PlanHash{aPlan}, Limit: 100})
	require.NoError(t, err)
	for _, r := range claimed {
		require.True(t, want[r.ID], "it is another engine's, which lives")
		delete(want, r.ID)
	}
	require.Empty(t, want)
}

// explain returns the plan of a prepared statement that follows settings. It runs the statement and
// changes no data.
func explain(t *testing.T, look *pgxpool.Pool, settings, st pgx.TraceBatchQueryData) string {
	t.Helper()
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), settings.SQL, settings.Args...)
	require.NoError(t, err)
	name := fmt.Sprintf("explained_%x", newEngine())
	prepared, err := tx.Prepare(t.Context(), name, st.SQL)
	require.NoError(t, err)
	args := make([]string, len(st.Args))
	for i, arg := range st.Args {
		text, err := tx.Conn().TypeMap().Encode(prepared.ParamOIDs[i], pgx.TextFormatCode, arg, []byte{}) // nil means null
		require.NoError(t, err)
		if args[i] = "null"; text != nil {
			args[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
	}
	execute := "explain (analyze, buffers, costs off) execute " + name
	if len(args) > 0 {
		execute += "(" + strings.Join(args, ", ") + ")"
	}
	rows, err := tx.Query(t.Context(), execute)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// BenchmarkClaim_endedEngines measures a claim that finds nothing, beside engines that ended within the last
// day. Every engine looks so once a Poll.
func BenchmarkClaim_endedEngines(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			j, look := open(b, pgjournal.Config{})
			engine := beat(b, j, 10*time.Hour)
			for range 200 {
				start(b, j, engine)
			}
			endEngines(b, look, n)
			exec(b, look, "analyze")
			b.ReportAllocs()
			for b.Loop() {
				got, err := j.Claim(b.Context(), journal.ClaimRequest{
					Engine: engine, Plans: []journal.PlanHash{aPlan}, Deferred: []journal.PlanHash{aPlan}, Limit: 100, Backoff: time.Minute,
				})
				require.NoError(b, err)
				require.Empty(b, got)
			}
		})
	}
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
