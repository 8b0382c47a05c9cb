package pgstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

// slice is the length of one turn. The machine's other load changes more slowly than that, and so affects both ways
// alike. With -short a benchmark only shows that it runs: its figures have no meaning.
func slice() time.Duration {
	if testing.Short() {
		return 20 * time.Millisecond
	}
	return 500 * time.Millisecond
}

// BenchmarkCombining measures claim and completion of fresh keys, durable, with
// combining and without. The two take turns; an op of the benchmark is one turn
// of each. It reports medians over the turns: the rates, their ratio, and the
// ratio of the median times.
func BenchmarkCombining(b *testing.B) {
	look := durable(b)
	on := openOn(b, look, pgstore.Config{}, size(32))
	off := openOn(b, look, pgstore.Config{SeparateCommits: true}, size(32))
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			b.ReportAllocs()
			var rates, offRates, ratios, medians []float64
			for b.Loop() {
				offRate, offMedian := turn(b, off, callers)
				rate, median := turn(b, on, callers)
				rates, offRates = append(rates, rate), append(offRates, offRate)
				ratios, medians = append(ratios, rate/offRate), append(medians, float64(median)/float64(offMedian))
			}
			b.ReportMetric(middle(rates), "on-ops/s")
			b.ReportMetric(middle(offRates), "off-ops/s")
			b.ReportMetric(middle(ratios), "x-rate")
			b.ReportMetric(middle(medians), "x-p50")
		})
	}
}

// BenchmarkNames compares, in turns, prepared statements with statements that
// the server parses and plans each time.
func BenchmarkNames(b *testing.B) {
	look := durable(b)
	named := openOn(b, look, pgstore.Config{}, size(32))
	described := openOn(b, look, pgstore.Config{}, size(32), func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	})
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var ratios, medians []float64
			for b.Loop() {
				without, slow := turn(b, described, callers)
				with, fast := turn(b, named, callers)
				ratios, medians = append(ratios, with/without), append(medians, float64(fast)/float64(slow))
			}
			b.ReportMetric(middle(ratios), "x-rate")
			b.ReportMetric(middle(medians), "x-p50")
		})
	}
}

// durable is a server that keeps what it has acknowledged, with the tables.
func durable(b *testing.B) (look *pgxpool.Pool) {
	b.Helper()
	cluster, err := pgtest.Start(b.Context(), pgtest.Config{Durable: true, Settings: map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "4GB",
	}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Stop()) })
	url, err := cluster.CreateDatabase(b.Context(), "keys")
	require.NoError(b, err)
	look, err = pgxpool.New(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(look.Close)
	require.NoError(b, pgstore.Migrate(b.Context(), look, ""))
	return look
}

// turn lets the callers claim and complete keys for a while. It returns the
// number of claims with their completions in a second, and the median time of
// one claim with its completion.
func turn(b *testing.B, s store.Store, callers int) (rate float64, median time.Duration) {
	b.Helper()
	return turnOf(b, callers, func(ctx context.Context) error {
		req := newClaim()
		r, won, err := s.Claim(ctx, req)
		if err != nil || !won {
			return fmt.Errorf("won %v, error %w", won, err)
		}
		return s.Settle(ctx, store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}, completion)
	})
}

// inTurn lets the callers call do until the turn ends. A caller stops early if
// do returns false. inTurn returns how long each call took.
func inTurn(callers int, do func() bool) (all []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(slice())
	for range callers {
		wg.Go(func() {
			var mine []time.Duration
			for start := time.Now(); start.Before(end) && do(); start = time.Now() {
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	return all
}

func middle[T float64 | time.Duration](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}
