package server

// Inside the package, for the cache has no door of its own.

import (
	"testing"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// BenchmarkRecall is what a replay from the cache costs in the guard: to find the
// record, decide by it, and open its answer. What an adapter does before and after,
// as reading and hashing the request, is the same for every call; see
// BenchmarkHandler.
func BenchmarkRecall(b *testing.B) {
	g := &Guard{cache: newCache(1<<20, time.Hour)}
	g.cfg.MaxDeaths = DefaultMaxDeaths
	c := &call{route: new(Route), fingerprint: Fingerprint{Version: 1, Sum: [32]byte{1}}}
	c.id = NewID("tenant", "", childkey.MustParse("order-42"))
	now := time.Now()
	g.cache.put(&Record{
		ID: c.id, State: StateCompleted, Fingerprint: c.fingerprint, Answer: Answer{Status: 201, Envelope: make([]byte, 200)},
		Now: now, ReplayUntil: now.Add(time.Hour), ExpiresAt: now.Add(time.Hour),
	})
	b.ReportAllocs()
	for b.Loop() {
		if out, ok := g.recall(c); !ok || out.replay == nil {
			b.Fatal("no replay")
		}
	}
}
