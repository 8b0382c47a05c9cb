package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/redisstore/redistest"
	"github.com/fanonce/fanonce/server/store"
)

const benchCallers = 64

// BenchmarkBesideRaw makes a claim and a completion by 64 callers, and beside it SET NX PX and SET by go-redis, with a
// connection for each caller. One round of each follows the other. It reports both rates, and the store's share of the
// raw one.
func BenchmarkBesideRaw(b *testing.B) {
	for _, fsync := range []string{"everysec", "always"} {
		b.Run(fsync, func(b *testing.B) {
			srv := redistest.Start(b, "--appendfsync", fsync)
			s := open(b, redisstore.Config{}, srv.Addr())
			raw := redis.NewClient(&redis.Options{Addr: srv.Addr(), PoolSize: benchCallers, Protocol: 2, DisableIdentity: true})
			defer raw.Close()
			var stored, plain time.Duration
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				plain += round(b, func() error { return rawRun(b, raw) })
				stored += round(b, func() error { return storeRun(b, s) })
				n++
			}
			runs := float64(n * roundRuns)
			b.ReportMetric(runs/plain.Seconds(), "raw/s")
			b.ReportMetric(runs/stored.Seconds(), "store/s")
			b.ReportMetric(plain.Seconds()/stored.Seconds(), "share")
		})
	}
}

const roundRuns = 64 * benchCallers

// round makes roundRuns runs, and returns how long that took.
func round(b *testing.B, run func() error) time.Duration {
	b.Helper()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	began := time.Now()
	for range benchCallers {
		wg.Go(func() {
			for range roundRuns / benchCallers {
				if err := run(); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	return time.Since(began)
}

func rawRun(b *testing.B, client *redis.Client) error {
	id := newID()
	name := "raw:" + string(id[:])
	won, err := client.SetNX(b.Context(), name, "claimed", time.Hour).Result()
	if err != nil || !won {
		return fmt.Errorf("SET NX = %v: %w", won, err)
	}
	return client.Set(b.Context(), name, "answered", time.Hour).Err()
}

func storeRun(b *testing.B, s *redisstore.Store) error {
	req := request(store.Keyed)
	r, won, err := s.Claim(b.Context(), req)
	if err != nil || !won {
		return fmt.Errorf("claim = %v: %w", won, err)
	}
	return s.Settle(b.Context(), store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}, completion)
}
