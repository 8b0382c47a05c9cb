package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanonce/fanonce/server/natsstore"
	"github.com/fanonce/fanonce/server/natsstore/natstest"
	"github.com/fanonce/fanonce/server/store"
)

// answer is the size of an ordinary answer.
var answer = make([]byte, 200)

// A speeds is the result of [speed].
type speeds struct {
	servers      natstest.Config
	callers      int
	store, bare  float64   // keys a second: medians
	ratios       []float64 // of each round, sorted
	median, best float64
}

// String is one line of a report.
func (r speeds) String() string {
	return fmt.Sprintf("%d server(s), always %v, %d callers: store %.0f keys/s, bare %.0f keys/s, ratio %.2f (rounds %.2f to %.2f)",
		max(r.servers.Nodes, 1), r.servers.SyncAlways, r.callers, r.store, r.bare, r.median, r.ratios[0], r.best)
}

// speed lets callers claim and complete keys, and create and update bare ones, in turns of a slice each.
func speed(ctx context.Context, tb natstest.TB, servers natstest.Config, callers, rounds int, slice time.Duration) speeds {
	conn := natstest.Start(tb, servers).Connect(tb)
	s := open(ctx, tb, conn, max(servers.Nodes, 1))
	defer s.Close()
	js, err := jetstream.New(conn)
	check(tb, err)
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bare", Replicas: max(servers.Nodes, 1)})
	check(tb, err)
	ours := func() { check(tb, once(ctx, s)) }
	bare := func() {
		id := random16()
		key := hex.EncodeToString(id[:])
		rev, err := kv.Create(ctx, key, answer)
		check(tb, err)
		_, err = kv.Update(ctx, key, answer, rev)
		check(tb, err)
	}
	rate(callers, slice/4, ours) // warm
	rate(callers, slice/4, bare)
	r := speeds{servers: servers, callers: callers}
	var stores, bares []float64
	for i := range rounds {
		var a, b float64
		if i%2 == 0 { // neither is always the second
			a, b = rate(callers, slice, ours), rate(callers, slice, bare)
		} else {
			b, a = rate(callers, slice, bare), rate(callers, slice, ours)
		}
		stores, bares, r.ratios = append(stores, a), append(bares, b), append(r.ratios, a/b)
	}
	r.store, r.bare, r.median = median(stores), median(bares), median(r.ratios)
	r.best = r.ratios[len(r.ratios)-1]
	return r
}

// median sorts x.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// rate returns how often callers call do in a second.
func rate(callers int, slice time.Duration, do func()) float64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(start) < slice {
				do()
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(start).Seconds()
}

// once claims and completes a new key.
func once(ctx context.Context, s *natsstore.Store) error {
	r, _, err := s.Claim(ctx, request(random16()))
	if err != nil {
		return err
	}
	return s.Settle(ctx, store.Owner{ID: r.ID, Token: r.Token, Fence: r.Fence}, completion)
}

var completion = store.Settlement{State: store.StateCompleted, Answer: store.Answer{Status: 200, Envelope: answer}, ReplayFor: 24 * time.Hour}

func request(id store.ID) store.ClaimRequest {
	return store.ClaimRequest{
		ID: id, Token: random16(), Fingerprint: store.Fingerprint{Version: 1, Sum: [32]byte{1}}, Effect: store.Keyed,
		Lease: time.Hour, Keep: store.DefaultAuditRetention,
	}
}

func random16() (b [16]byte) {
	_, _ = rand.Read(b[:])
	return b
}

// open opens a store on a new bucket.
func open(ctx context.Context, tb natstest.TB, conn *nats.Conn, replicas int) *natsstore.Store {
	cfg := natsstore.Config{Replicas: replicas, Durability: natsstore.FlushPeriodically, Timeout: 2 * time.Minute}
	check(tb, natsstore.Create(ctx, conn, cfg))
	s, err := natsstore.Open(ctx, conn, cfg)
	check(tb, err)
	return s
}

func check(tb natstest.TB, err error) {
	if err != nil {
		tb.Fatalf("%v", err)
	}
}
