package engine

// This benchmark is inside the package: the cache is not exported.

import (
	"context"
	"testing"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/store"
)

// BenchmarkRecall measures the cost of a replay from the cache in the guard: to
// find the record, decide by it, and open its answer. An adapter's work before
// and after, such as reading and hashing the request, is the same for every
// call; see BenchmarkHandler.
func BenchmarkRecall(b *testing.B) {
	e := New(Config{CacheBytes: 1 << 20, MaxRecoveryAttempts: 5, Observe: func(context.Context, store.Event) {}})
	c := &Call{Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{1}}}
	c.ID = store.NewID("tenant", "", childkey.MustParse("order-42"))
	now := time.Now()
	e.cache.put(&store.Record{
		ID: c.ID, State: store.StateCompleted, Fingerprint: c.Fingerprint, Answer: store.Answer{Status: 201, Envelope: make([]byte, 200)},
		Now: now, ReplayUntil: now.Add(time.Hour), ExpiresAt: now.Add(time.Hour),
	}, 0)
	b.ReportAllocs()
	for b.Loop() {
		if out, ok := e.recall(b.Context(), c); !ok || out.Replay == nil {
			b.Fatal("no replay")
		}
	}
}
