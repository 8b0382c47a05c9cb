package guardotel

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/gauges"
)

// bounds are the buckets of the histograms, in seconds: those of [server.Metrics].
var bounds = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// meters are the instruments of the guard's events.
type meters struct {
	events, refusals     metric.Int64Counter
	claim, wait, pending metric.Float64Histogram
	messages             messageMeters
}

func newMeters(meter metric.Meter) (*meters, error) {
	var errs [6]error
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
	m.messages, errs[5] = newMessageMeters(meter)
	return m, errors.Join(errs[:]...)
}

// A route has the names of its spans and the attributes of its metrics, which are made once.
type route struct {
	of        []attribute.KeyValue // of each metric: the guard and the route
	call, run string
	starts    sync.Map // server.Effect → []trace.SpanStartOption
	times     []metric.RecordOption
	events    sync.Map // server.EventKind → []metric.AddOption
	refusals  sync.Map // wire.Code → []metric.AddOption
}

func (o *Observer) route(name string) *route {
	if r, ok := o.routes.Load(name); ok {
		return r.(*route) //nolint:errcheck // nothing else is stored
	}
	of := []attribute.KeyValue{attrGuard.String(o.name), attrRoute.String(name)}
	r, _ := o.routes.LoadOrStore(name, &route{
		of: of, call: "guard " + name, run: "run " + name,
		times: []metric.RecordOption{metric.WithAttributes(of...)},
	})
	return r.(*route) //nolint:errcheck // nothing else is stored
}

// startOf returns the attributes that a span begins with, which are made once. A sampler sees no later ones.
func (r *route) startOf(e *server.CallEvent) []trace.SpanStartOption {
	if options, ok := r.starts.Load(e.Effect); ok {
		return options.([]trace.SpanStartOption) //nolint:errcheck // nothing else is stored
	}
	made := []trace.SpanStartOption{trace.WithAttributes(
		r.of[0], attrRoute.String(e.Route), attrEffect.String(e.Effect.String()))}
	options, _ := r.starts.LoadOrStore(e.Effect, made)
	return options.([]trace.SpanStartOption) //nolint:errcheck // nothing else is stored
}

// adding returns the options for a count with one attribute more, which m keeps under key.
func (r *route) adding(m *sync.Map, key any, attr attribute.KeyValue) []metric.AddOption {
	options, _ := m.LoadOrStore(key, []metric.AddOption{metric.WithAttributes(append(slices.Clone(r.of), attr)...)})
	return options.([]metric.AddOption) //nolint:errcheck // nothing else is stored
}

// ofKind returns the options for a count of events.
func (r *route) ofKind(e *server.Event) []metric.AddOption {
	if options, ok := r.events.Load(e.Kind); ok {
		return options.([]metric.AddOption) //nolint:errcheck // nothing else is stored
	}
	return r.adding(&r.events, e.Kind, attrEvent.String(e.Kind.String()))
}

// ofCode returns the options for a count of refusals.
func (r *route) ofCode(code wire.Code) []metric.AddOption {
	if options, ok := r.refusals.Load(code); ok {
		return options.([]metric.AddOption) //nolint:errcheck // nothing else is stored
	}
	return r.adding(&r.refusals, code, attrError.String(string(code)))
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
		m.messages.observe(ctx, r, &e)
	}
	m.events.Add(ctx, n, r.ofKind(&e)...)
	if e.Code != "" {
		m.refusals.Add(ctx, 1, r.ofCode(e.Code)...)
	}
}

// watch registers the metrics of the store.
func watch(meter metric.Meter, numbers *gauges.Numbers, name string) (metric.Registration, error) {
	var errs []error
	instruments := make(map[*gauges.Gauge]metric.Float64Observable)
	all := make([]metric.Observable, 0, len(gauges.All))
	for _, g := range gauges.All {
		i, err := meter.Float64ObservableGauge(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.Help))
		errs = append(errs, err)
		instruments[g] = i
		all = append(all, i)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	of := attrStore.String(name)
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		numbers.Each(func(g *gauges.Gauge, by string, value float64) {
			attrs := []attribute.KeyValue{of}
			if g.By != "" {
				attrs = append(attrs, attribute.String("fanonce."+g.By, by))
			}
			to.ObserveFloat64(instruments[g], value, metric.WithAttributes(attrs...))
		})
		return nil
	}, all...)
}
