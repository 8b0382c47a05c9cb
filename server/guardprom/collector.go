package guardprom

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/gauges"
	"github.com/fanonce/fanonce/server/store"
)

// A Config configures a [Collector]. The zero Config is ready to use.
type Config struct {
	// Name is the label guard of the guard's metrics, and the label store of the store's. It tells the collectors of one
	// process apart, so it must be unique there: the registry refuses the second collector of a name. It is printable
	// UTF-8 of at most 128 bytes. Empty means a number: "1" for the first collector of the process without a name, "2" for
	// the next.
	Name string
	// Store is the store whose numbers are shown. It is asked in the background, while Prometheus scrapes. nil: the
	// collector has the guard's events only.
	Store store.Store
	// StatsEvery also has the records counted by state: it is the least time between two calls of [store.Store].Stats,
	// which may read the whole table, and a call is ended after half of it. Zero never counts. [New] refuses a negative
	// one.
	StatsEvery time.Duration
	// Buckets are the upper bounds of the histograms, in seconds, in growing order. nil means those of
	// [server.Metrics].
	Buckets []float64
	// Exemplar returns the labels of an exemplar for an event with that ctx, such as trace_id; nil for none. nil
	// makes no exemplars. prometheus.ExemplarMaxRunes bounds the labels, and longer ones are left out.
	Exemplar func(ctx context.Context) prometheus.Labels
	// Next gets every event too, such as a tracer's. If it is a [server.Tracer] wrap the collector in it instead:
	// guardotel.Config has a Next too. nil means no further observer.
	Next server.Observer
}

var names gauges.Names

func reject(field string, value any, reason string) error {
	return &server.ConfigError{Field: "Config." + field, Value: fmt.Sprint(value), Reason: reason}
}

func (cfg Config) withDefaults() (Config, error) {
	if v := reflect.ValueOf(cfg.Store); v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {
		return cfg, reject("Store", "nil", fmt.Sprintf("is a nil %T", cfg.Store))
	}
	if _, ok := cfg.Next.(server.Tracer); ok {
		return cfg, reject("Next", fmt.Sprintf("%T", cfg.Next), "is a server.Tracer, which would not hear of calls: give it the collector as its Next")
	}
	switch {
	case cfg.StatsEvery < 0:
		return cfg, reject("StatsEvery", cfg.StatsEvery, "is negative")
	case !increasing(cfg.Buckets):
		return cfg, reject("Buckets", cfg.Buckets, "are not in growing order")
	}
	if cfg.Buckets == nil {
		cfg.Buckets = defaultBuckets
	}
	name, err := names.Choose(cfg.Name)
	if err != nil {
		return cfg, reject("Name", cfg.Name, err.Error())
	}
	cfg.Name = name
	return cfg, nil
}

// increasing reports whether each bound is greater than the one before. It is false with a NaN.
func increasing(bounds []float64) bool {
	for i, bound := range bounds {
		if bound != bound || i > 0 && !(bound > bounds[i-1]) { //nolint:staticcheck // NaN
			return false
		}
	}
	return true
}

var defaultBuckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// A Collector is a [server.Observer] and a [prometheus.Collector]. Make one for each guard with [New]. It is safe
// for concurrent use.
type Collector struct {
	cfg Config

	events, refusals     *prometheus.CounterVec
	claim, wait, pending *prometheus.HistogramVec
	routes               sync.Map // string → *route

	messages *messageMetrics
	store    *storeMetrics // nil: no store
}

// New returns a collector. A wrong field is a [*server.ConfigError].
func New(cfg Config) (*Collector, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	of := prometheus.Labels{labelGuard: cfg.Name}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: slices.Clone(cfg.Buckets), ConstLabels: of,
		}, []string{labelRoute})
	}
	c := &Collector{
		cfg: cfg,
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanonce_guard_events_total", Help: "Events of the guard, by kind. Of swept it counts records.", ConstLabels: of,
		}, []string{labelRoute, labelEvent}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanonce_guard_refusals_total", Help: "Calls that were refused, by problem code.", ConstLabels: of,
		}, []string{labelRoute, labelCode}),
		claim:   histogram("fanonce_guard_claim_duration_seconds", "Time of the store to claim a key."),
		wait:    histogram("fanonce_guard_wait_duration_seconds", "Time that a call waited for the run of another call."),
		pending: histogram("fanonce_guard_pending_duration_seconds", "Time from the first claim of a key to its answer."),

		messages: newMessageMetrics(of),
	}
	if cfg.Store != nil {
		c.store = newStoreMetrics(cfg)
	}
	return c, nil
}

// The labels. Each is the last word of an attribute of package guardotel, but for error_type, which is one that OpenTelemetry
// has.
const (
	labelGuard = "guard"
	labelStore = "store"
	labelRoute = "route"
	labelEvent = "event"
	labelCode  = "error_type"
)

// A route has the metrics of one route, looked up once.
type route struct {
	claim, wait, pending prometheus.Observer
	events               sync.Map // server.EventKind → prometheus.Counter
}

func (c *Collector) route(name string) *route {
	if r, ok := c.routes.Load(name); ok {
		return r.(*route) //nolint:errcheck // nothing else is stored
	}
	r, _ := c.routes.LoadOrStore(name, &route{
		claim: c.claim.WithLabelValues(name), wait: c.wait.WithLabelValues(name), pending: c.pending.WithLabelValues(name),
	})
	return r.(*route) //nolint:errcheck // nothing else is stored
}

func (c *Collector) counter(r *route, name string, kind server.EventKind) prometheus.Counter {
	if n, ok := r.events.Load(kind); ok {
		return n.(prometheus.Counter) //nolint:errcheck // nothing else is stored
	}
	n, _ := r.events.LoadOrStore(kind, c.events.WithLabelValues(name, kind.String()))
	return n.(prometheus.Counter) //nolint:errcheck // nothing else is stored
}

// Observe implements [server.Observer].
func (c *Collector) Observe(ctx context.Context, e server.Event) {
	r := c.route(e.Route)
	n := c.counter(r, e.Route, e.Kind)
	switch e.Kind {
	case server.EventSwept:
		n.Add(float64(e.Count))
	case server.EventClaimed:
		n.Inc()
		c.time(ctx, r.claim, e.Duration)
	case server.EventWaited:
		n.Inc()
		c.time(ctx, r.wait, e.Duration)
	case server.EventSettled:
		n.Inc()
		c.time(ctx, r.pending, e.Duration)
	default:
		n.Inc()
		c.observeMessage(ctx, &e)
	}
	if e.Code != "" {
		c.refusals.WithLabelValues(e.Route, string(e.Code)).Inc()
	}
	if c.cfg.Next != nil {
		c.cfg.Next.Observe(ctx, e)
	}
}

// time observes a duration, with an exemplar if the event has one.
func (c *Collector) time(ctx context.Context, h prometheus.Observer, d time.Duration) {
	if c.cfg.Exemplar != nil {
		labels := c.cfg.Exemplar(ctx)
		if with, ok := h.(prometheus.ExemplarObserver); ok && len(labels) > 0 && fits(labels) {
			with.ObserveWithExemplar(d.Seconds(), labels)
			return
		}
	}
	h.Observe(d.Seconds())
}

// fits reports whether client_golang takes the labels: it panics at others.
func fits(labels prometheus.Labels) bool {
	runes := 0
	for name, value := range labels {
		for range name + value {
			runes++
		}
	}
	return runes <= prometheus.ExemplarMaxRunes
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.metrics() {
		m.Describe(to)
	}
	if c.store != nil {
		c.store.describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for _, m := range c.metrics() {
		m.Collect(to)
	}
	if c.store != nil {
		c.store.collect(to)
	}
}

func (c *Collector) metrics() []prometheus.Collector {
	return []prometheus.Collector{c.events, c.refusals, c.claim, c.wait, c.pending, c.messages.age, c.messages.attempts}
}
