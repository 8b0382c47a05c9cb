package server

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/fanonce/fanonce/childkey/wire"
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
	counts                  [eventKinds]atomic.Int64
	claim, wait, pendingAge histogram

	mu      sync.Mutex
	refused map[wire.Code]int64
}

// NewMetrics returns Metrics with every count at zero.
func NewMetrics() *Metrics { return &Metrics{} }

// Observe implements [Observer].
func (m *Metrics) Observe(e Event) {
	if e.Kind >= eventKinds {
		return
	}
	r := m.route(e.Route)
	r.counts[e.Kind].Add(e.times())
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

// times is how often the event counts.
func (e Event) times() int64 {
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

// A Snapshot is the counts at one moment, by [Route.Name]; "" has the events
// that concern no one route.
type Snapshot map[string]RouteSnapshot

// A RouteSnapshot is the counts of one route. Its values are the caller's.
type RouteSnapshot struct {
	Counts     map[string]int64    `json:"counts"`  // by [EventKind]'s name; all kinds are there; of records, for swept
	Refused    map[wire.Code]int64 `json:"refused"` // by code; only those that occurred
	Claim      HistogramSnapshot   `json:"claim"`
	Wait       HistogramSnapshot   `json:"wait"`
	PendingAge HistogramSnapshot   `json:"pending_age"`
}

// Snapshot returns the counts so far. They are not taken at one instant:
// events that happen meanwhile may be in one count and not in another.
func (m *Metrics) Snapshot() Snapshot {
	s := make(Snapshot)
	m.routes.Range(func(name, v any) bool {
		s[name.(string)] = v.(*routeMetrics).snapshot() //nolint:errcheck // nothing else is stored
		return true
	})
	return s
}

func (r *routeMetrics) snapshot() RouteSnapshot {
	s := RouteSnapshot{
		Counts:     make(map[string]int64, eventKinds),
		Refused:    make(map[wire.Code]int64),
		Claim:      r.claim.snapshot(),
		Wait:       r.wait.snapshot(),
		PendingAge: r.pendingAge.snapshot(),
	}
	for k := range eventKinds {
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
