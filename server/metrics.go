package server

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// Metrics counts events and collects their durations, by route: the route is
// the only label. It is an [Observer] and an expvar.Var:
//
//	metrics := server.NewMetrics()
//	expvar.Publish("fanonce", metrics)
//
// The zero Metrics is ready to use. It is safe for concurrent use, and must
// not be copied.
type Metrics struct {
	routes sync.Map // string → *routeMetrics
}

type routeMetrics struct {
	counts                  [store.EventKinds]atomic.Int64
	claim, wait, pendingAge histogram

	mu      sync.Mutex
	refused map[wire.Code]int64
}

// NewMetrics returns Metrics with every count at zero.
func NewMetrics() *Metrics { return &Metrics{} }

// Observe implements [Observer].
func (m *Metrics) Observe(_ context.Context, e Event) {
	if e.Kind >= store.EventKinds {
		return
	}
	r := m.route(e.Route)
	r.counts[e.Kind].Add(countOf(e))
	switch e.Kind {
	case EventClaimed:
		r.claim.observe(e.Duration)
	case EventWaited:
		r.wait.observe(e.Duration)
	case EventSettled:
		r.pendingAge.observe(e.Duration)
	default:
	}
	if e.Code != "" {
		r.refuse(e.Code)
	}
}

// countOf returns the number that the event adds to its count.
func countOf(e Event) int64 {
	if e.Kind == EventSwept {
		return int64(e.Count)
	}
	return 1
}

func (m *Metrics) route(name string) *routeMetrics {
	if v, ok := m.routes.Load(name); ok {
		return v.(*routeMetrics) //nolint:errcheck // nothing else is stored
	}
	v, _ := m.routes.LoadOrStore(name, &routeMetrics{refused: make(map[wire.Code]int64)})
	return v.(*routeMetrics) //nolint:errcheck // nothing else is stored
}

func (r *routeMetrics) refuse(code wire.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[code]++
}

// A RouteSnapshot is the counts of one route. Its values are the caller's.
type RouteSnapshot struct {
	Counts     map[string]int64    `json:"counts"`  // by [EventKind]'s name; all kinds are there; of records, for swept
	Refused    map[wire.Code]int64 `json:"refused"` // by code; only those that occurred
	Claim      HistogramSnapshot   `json:"claim"`
	Wait       HistogramSnapshot   `json:"wait"`
	PendingAge HistogramSnapshot   `json:"pending_age"`
}

// Snapshot returns the counts so far, by [Route.Name]. The name "" has the
// events that do not belong to one route. The counts are not taken at one
// instant: events that happen meanwhile may be in one count and not in another.
func (m *Metrics) Snapshot() map[string]RouteSnapshot {
	s := make(map[string]RouteSnapshot)
	m.routes.Range(func(name, v any) bool {
		s[name.(string)] = v.(*routeMetrics).snapshot() //nolint:errcheck // nothing else is stored
		return true
	})
	return s
}

func (r *routeMetrics) snapshot() RouteSnapshot {
	s := RouteSnapshot{
		Counts:     make(map[string]int64, store.EventKinds),
		Refused:    make(map[wire.Code]int64),
		Claim:      r.claim.snapshot(),
		Wait:       r.wait.snapshot(),
		PendingAge: r.pendingAge.snapshot(),
	}
	for k := range store.EventKinds {
		s.Counts[k.String()] = r.counts[k].Load()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for code, n := range r.refused {
		s.Refused[code] = n
	}
	return s
}

// String returns the snapshot as JSON: Metrics is an expvar.Var.
func (m *Metrics) String() string {
	b, err := json.Marshal(m.Snapshot())
	if err != nil { // numbers and strings always encode
		return "{}"
	}
	return string(b)
}

// bounds are the upper bounds of a histogram's buckets, inclusive: from a claim
// on a fast disk to a run that took longer than every deadline.
var bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

type histogram struct {
	counts [len(bounds) + 1]atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// A HistogramSnapshot is a distribution of durations.
type HistogramSnapshot struct {
	Count int64 `json:"count"`
	// SumSeconds and the buckets' bounds are in seconds, as Prometheus wants
	// them.
	SumSeconds float64 `json:"sum_seconds"`
	// A bucket counts the durations of at most UpTo seconds, including those of the
	// buckets before it. A duration above the last bound is only in Count.
	Buckets []struct {
		UpTo  float64 `json:"up_to"`
		Count int64   `json:"count"`
	} `json:"buckets"`
}

func (h *histogram) snapshot() HistogramSnapshot {
	s := HistogramSnapshot{SumSeconds: time.Duration(h.sum.Load()).Seconds()}
	s.Buckets = slices.Grow(s.Buckets, len(bounds))[:len(bounds)]
	for i, bound := range bounds {
		s.Count += h.counts[i].Load()
		s.Buckets[i].UpTo, s.Buckets[i].Count = bound.Seconds(), s.Count
	}
	s.Count += h.counts[len(bounds)].Load()
	return s
}
