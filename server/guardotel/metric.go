package guardotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// bounds are the buckets of the histograms, in seconds: those of [server.Metrics].
var bounds = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// meters are the instruments of the guard's events.
type meters struct {
	events, refusals     metric.Int64Counter
	claim, wait, pending metric.Float64Histogram
}

func newMeters(meter metric.Meter) (*meters, error) {
	var errs [5]error
	histogram := func(err *error, name, text string) (h metric.Float64Histogram) {
		h, *err = meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(bounds...))
		return h
	}
	m := &meters{
		claim:   histogram(&errs[0], "fanonce.guard.claim.duration", "Time of the store to claim a key."),
		wait:    histogram(&errs[1], "fanonce.guard.wait.duration", "Time that a call waited for the run of another call."),
		pending: histogram(&errs[2], "fanonce.guard.pending.duration", "Time from the first claim of a key to its answer."),
	}
	m.events, errs[3] = meter.Int64Counter("fanonce.guard.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events of the guard, by kind. Of swept it counts records."))
	m.refusals, errs[4] = meter.Int64Counter("fanonce.guard.refusals", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that were refused, by problem code."))
	return m, errors.Join(errs[:]...)
}

// A route has the names of its spans and the attributes of its metrics, which are made once.
type route struct {
	call, run string
	times     []metric.RecordOption
	events    sync.Map // server.EventKind → []metric.AddOption
	refusals  sync.Map // wire.Code → []metric.AddOption
}

func (o *Observer) route(name string) *route {
	if r, ok := o.routes.Load(name); ok {
		return r.(*route) //nolint:errcheck // nothing else is stored
	}
	r, _ := o.routes.LoadOrStore(name, &route{
		call: "guard " + name, run: "run " + name,
		times: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrRoute.String(name)))},
	})
	return r.(*route) //nolint:errcheck // nothing else is stored
}

// adding returns the options for a count, which m keeps.
func adding(m *sync.Map, of any, attrs ...attribute.KeyValue) []metric.AddOption {
	options, _ := m.LoadOrStore(of, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attrs...))})
	return options.([]metric.AddOption) //nolint:errcheck // nothing else is stored
}

// ofKind returns the options for a count of events.
func (r *route) ofKind(e *server.Event) []metric.AddOption {
	if options, ok := r.events.Load(e.Kind); ok {
		return options.([]metric.AddOption) //nolint:errcheck // nothing else is stored
	}
	return adding(&r.events, e.Kind, attrRoute.String(e.Route), attrEvent.String(e.Kind.String()))
}

// ofCode returns the options for a count of refusals.
func (r *route) ofCode(name string, code wire.Code) []metric.AddOption {
	if options, ok := r.refusals.Load(code); ok {
		return options.([]metric.AddOption) //nolint:errcheck // nothing else is stored
	}
	return adding(&r.refusals, code, attrRoute.String(name), attrError.String(string(code)))
}

func (m *meters) count(ctx context.Context, r *route, e server.Event) {
	n := int64(1)
	switch e.Kind {
	case server.EventSwept:
		n = int64(e.Count)
	case server.EventClaimed:
		m.claim.Record(ctx, e.Duration.Seconds(), r.times...)
	case server.EventWaited:
		m.wait.Record(ctx, e.Duration.Seconds(), r.times...)
	case server.EventSettled:
		m.pending.Record(ctx, e.Duration.Seconds(), r.times...)
	default:
	}
	m.events.Add(ctx, n, r.ofKind(&e)...)
	if e.Code != "" {
		m.refusals.Add(ctx, 1, r.ofCode(e.Route, e.Code)...)
	}
}

// states are the states of records, so that each has a number, even if it is 0.
var states = []store.State{
	store.StateInProgress, store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateQuarantined, store.StateCancelled,
}

// gauges are the instruments of the store.
type gauges struct {
	up, records, size, standbys, attention metric.Int64ObservableGauge
	oldest, oldestAttention                metric.Float64ObservableGauge
}

// watch registers the metrics of the store.
func watch(meter metric.Meter, s store.Store) (metric.Registration, error) {
	var errs [7]error
	count := func(err *error, name, unit, text string) (i metric.Int64ObservableGauge) {
		i, *err = meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		return i
	}
	age := func(err *error, name, text string) (f metric.Float64ObservableGauge) {
		f, *err = meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
		return f
	}
	g := &gauges{
		up:              count(&errs[0], "fanonce.store.up", "", "1 if the store answered, else 0."),
		records:         count(&errs[1], "fanonce.store.records", "{record}", "Records by state."),
		size:            count(&errs[2], "fanonce.store.size", "By", "Size of the table with its indexes; 0 if the store cannot tell."),
		standbys:        count(&errs[3], "fanonce.store.async_standbys", "{standby}", "Standbys that can lack an answer that was given."),
		attention:       count(&errs[4], "fanonce.store.attention", "{key}", "Keys that need a person, by reason."),
		oldest:          age(&errs[5], "fanonce.store.oldest_in_progress", "Age of the oldest record in progress; 0 if there is none."),
		oldestAttention: age(&errs[6], "fanonce.store.oldest_attention", "Age of the oldest key that needs a person; 0 if there is none."),
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		g.read(ctx, s, to)
		return nil // an error would be logged at each reading, and up says it
	}, g.up, g.records, g.size, g.standbys, g.attention, g.oldest, g.oldestAttention)
}

func (g *gauges) read(ctx context.Context, s store.Store, to metric.Observer) {
	need, errNeed := s.Reader().Attention(ctx)
	if errNeed == nil {
		for reason, n := range map[string]int64{"unknown": need.Unknown, "quarantined": need.Quarantined, "dead_letter": need.DeadLetters} {
			to.ObserveInt64(g.attention, n, metric.WithAttributes(attrReason.String(reason)))
		}
		to.ObserveFloat64(g.oldestAttention, need.Oldest.Seconds())
	}
	stats, errStats := s.Stats(ctx)
	if errStats == nil {
		for _, state := range states {
			to.ObserveInt64(g.records, stats.ByState[state], metric.WithAttributes(attrState.String(state.String())))
		}
		to.ObserveInt64(g.size, stats.Bytes)
		to.ObserveInt64(g.standbys, int64(stats.AsyncStandbys))
		to.ObserveFloat64(g.oldest, stats.OldestInProgress.Seconds())
	}
	up := int64(0)
	if errNeed == nil && errStats == nil {
		up = 1
	}
	to.ObserveInt64(g.up, up)
}
