package pgjournal_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgtest"
)

// durable is a server that keeps what it has acknowledged, with the tables.
func durable(b *testing.B) (look *pgxpool.Pool) {
	b.Helper()
	cluster, err := pgtest.Start(b.Context(), pgtest.Config{Durable: true, Settings: map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "4GB",
	}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, cluster.Stop()) })
	url, err := cluster.CreateDatabase(b.Context(), "sagas")
	require.NoError(b, err)
	look, err = pgxpool.New(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(look.Close)
	require.NoError(b, pgjournal.Migrate(b.Context(), look, ""))
	return look
}

// BenchmarkRun runs sagas of three steps that do nothing, one after the other: an op is
// a saga of each of the callers.
func BenchmarkRun(b *testing.B) {
	look := durable(b)
	c := newCallees(b)
	for _, separate := range []bool{false, true} {
		for _, callers := range []int{1, 32} {
			b.Run(fmt.Sprintf("combining=%v/callers=%d", !separate, callers), func(b *testing.B) {
				j := openOn(b, look, pgjournal.Config{SeparateCommits: separate}, func(cfg *pgxpool.Config) { cfg.MaxConns = 16 })
				e := engineWith(b, j, c, saga.Config{})
				b.ReportAllocs()
				var runs atomic.Int64
				for b.Loop() {
					together(callers, func(int) {
						key := childkey.MustNew()
						if _, err := idle.Run(b.Context(), e, key, journey{Trip: "t"}); err != nil {
							b.Error(err)
						}
						runs.Add(1)
					})
				}
				b.ReportMetric(float64(runs.Load())/b.Elapsed().Seconds(), "sagas/s")
			})
		}
	}
}

// BenchmarkTakeOver measures the time from the death of a saga's owner to the end of the saga.
// The lease is a second, and a living engine looks for unowned sagas every 50 ms.
func BenchmarkTakeOver(b *testing.B) {
	const lease = time.Second
	j, _ := open(b, pgjournal.Config{})
	c := newCallees(b)
	engineOn(b, j, c)
	var all []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		dead := beat(b, j, lease)
		died := time.Now()
		r := startTrip(b, j, dead, journey{Trip: childkey.MustNew().String()})
		ended(b, j, r.ID)
		all = append(all, time.Since(died))
	}
	b.ReportMetric(float64(slices.Max(all).Milliseconds()), "max-ms")
}
