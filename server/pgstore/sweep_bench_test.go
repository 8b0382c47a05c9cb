package pgstore_test

import (
	"context"
	"flag"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

var expiredRows = flag.Int("pgstore.expired", 20_000, "records that BenchmarkSweep deletes in each round, and answers that BenchmarkDropPartition drops")

// deleted calls all when the given number of records were swept.
type deleted struct {
	left atomic.Int64
	all  context.CancelFunc
}

func (d *deleted) Observe(_ context.Context, e server.Event) {
	if e.Kind == server.EventSwept && d.left.Add(-int64(e.Count)) <= 0 {
		d.all()
	}
}

// BenchmarkSweep measures the times of 500 requests a second, from the moment that each is due. It measures while
// expired records are swept, and before and after that. An op is one round of both. The results are medians over the
// rounds: of the 99th percentiles, of their ratio, and of the records swept a second.
func BenchmarkSweep(b *testing.B) {
	look := durable(b)
	s := openOn(b, look, pgstore.Config{}, size(32))
	var quiets, swepts, ratios, rates []float64
	for b.Loop() {
		quiet, swept, took := sweepRound(b, s, look)
		quiets, swepts = append(quiets, quiet), append(swepts, swept)
		ratios = append(ratios, swept/quiet)
		rates = append(rates, float64(*expiredRows)/took.Seconds())
	}
	b.ReportMetric(middle(quiets), "quiet-p99-ms")
	b.ReportMetric(middle(swepts), "swept-p99-ms")
	b.ReportMetric(middle(ratios), "x-p99")
	b.ReportMetric(middle(rates), "records/s")
	b.Logf("x-p99 of the rounds: %.2f", ratios)
}

// sweepRound returns the 99th percentiles without and with a sweep, in milliseconds, and the time of the sweep.
func sweepRound(b *testing.B, s store.Store, look *pgxpool.Pool) (quiet, swept float64, took time.Duration) {
	b.Helper()
	exec(b, look, "truncate idempotency")
	addExpired(b, look, *expiredRows)
	exec(b, look, "vacuum analyze idempotency")
	exec(b, look, "checkpoint")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := &deleted{all: cancel}
	done.left.Store(int64(*expiredRows))
	g, h := ordering(b, s, server.Config{Observer: done})
	requests := func(ctx context.Context) []time.Duration { return load(ctx, b, h, 500) }
	baseline := max(time.Second, time.Duration(*expiredRows)*10*time.Microsecond)
	before := during(b.Context(), baseline, requests)

	began := time.Now()
	go g.RunSweeper(ctx) // until the last record, or Shutdown
	beside := requests(ctx)
	took = time.Since(began)
	require.Zero(b, queryRow[int](b, look, "select count(*) from idempotency where expires_at < now()"))

	after := during(b.Context(), baseline, requests)
	require.NoError(b, g.Shutdown(b.Context()))
	return p99(append(before, after...)), p99(beside), took
}

// load sends requests to h at fixed times until ctx ends, and does not wait for
// earlier requests. It returns the time of each request from the moment that it
// was due.
func load(ctx context.Context, tb testing.TB, h http.Handler, perSecond int) (took []time.Duration) {
	tb.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	each := time.Second / time.Duration(perSecond)
	for due := time.Now(); ctx.Err() == nil; due = due.Add(each) {
		time.Sleep(time.Until(due))
		wg.Go(func() {
			order(tb, h)
			d := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, d)
		})
	}
	wg.Wait()
	return took
}

func during(ctx context.Context, d time.Duration, requests func(context.Context) []time.Duration) []time.Duration {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return requests(ctx)
}

func p99(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)*99/100].Microseconds()) / 1000
}

// BenchmarkDropPartition measures how long it takes until a partition that is full of
// answers is gone.
func BenchmarkDropPartition(b *testing.B) {
	look := durable(b)
	s := openOn(b, look, pgstore.Config{Answers: pgstore.AnswersPartitioned})
	require.NoError(b, s.MaintainPartitions(b.Context(), time.Hour))
	var took []time.Duration
	for b.Loop() {
		past := addPartition(b, look, "20060102", 24*time.Hour, -2)
		exec(b, look, "insert into "+past+` (kept_until, key, envelope)
			select now() - interval '2 days', gen_random_uuid(), convert_to(repeat('answer', 33), 'utf8') from generate_series(1, $1)`, *expiredRows)
		exec(b, look, "checkpoint")
		began := time.Now()
		require.NoError(b, s.MaintainPartitions(b.Context(), time.Hour))
		took = append(took, time.Since(began))
		require.NotContains(b, partitionNames(b, look), past)
	}
	b.ReportMetric(float64(middle(took).Microseconds())/1000, "drop-ms")
}
