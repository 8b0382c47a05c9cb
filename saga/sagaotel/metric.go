package sagaotel

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// bounds are the buckets of the histograms, in seconds. A saga may wait for days.
var bounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}

// meters are the instruments of events.
type meters struct {
	moves, events    metric.Int64Counter
	attempts, sagas  metric.Float64Histogram
	moved, attempted sync.Map // move → []metric.AddOption; attempt → []metric.RecordOption
}

// A move is the attributes of a change of status, and an attempt those of an attempt.
type (
	move struct {
		name string
		to   journal.Status
	}
	attempt struct {
		name, step string
		undo       bool
		outcome    retry.Outcome
	}
)

func newMeters(meter metric.Meter) (*meters, error) {
	m := new(meters)
	var errs [4]error
	m.moves, errs[0] = meter.Int64Counter("fanonce.saga.moves", metric.WithUnit("{saga}"),
		metric.WithDescription("Sagas that got this status. Of running it counts starts."))
	m.events, errs[1] = meter.Int64Counter("fanonce.saga.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events of engines, by kind. Of swept and took_over it counts sagas."))
	m.attempts, errs[2] = meter.Float64Histogram("fanonce.saga.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of an attempt of a step or an undo."), metric.WithExplicitBucketBoundaries(bounds...))
	m.sagas, errs[3] = meter.Float64Histogram("fanonce.saga.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a saga's start to its end, or until it got stuck."), metric.WithExplicitBucketBoundaries(bounds...))
	return m, errors.Join(errs[:]...)
}

func (m *meters) count(ctx context.Context, e saga.Event) {
	switch e.Kind {
	case saga.EventAttempt:
		m.attempts.Record(ctx, e.Elapsed.Seconds(), m.ofAttempt(&e)...)
	case saga.EventMoved:
		if e.From == e.To { // a person asked for the end of the saga
			return
		}
		options := m.ofMove(&e)
		m.moves.Add(ctx, 1, options.add...)
		if e.To.Final() || e.To == journal.Stuck {
			m.sagas.Record(ctx, e.Age.Seconds(), options.record...)
		}
	case saga.EventDeferred: // a gauge has the number
	case saga.EventSwept, saga.EventTookOver:
		m.events.Add(ctx, int64(e.Count), metric.WithAttributes(attrEvent.String(eventName(e.Kind))))
	default:
		m.events.Add(ctx, 1, metric.WithAttributes(attrEvent.String(eventName(e.Kind))))
	}
}

// eventName is the kind in snake case, as metrics show it.
func eventName(kind journal.EventKind) string { return strings.ReplaceAll(string(kind), " ", "_") }

// moveOptions are the attributes of a move, for both of its instruments.
type moveOptions struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func (m *meters) ofMove(e *saga.Event) *moveOptions {
	of := move{e.Name, e.To}
	if options, ok := m.moved.Load(of); ok {
		return options.(*moveOptions) //nolint:errcheck // nothing else is stored
	}
	set := metric.WithAttributeSet(attribute.NewSet(attrName.String(e.Name), attrStatus.String(e.To.String())))
	options, _ := m.moved.LoadOrStore(of, &moveOptions{[]metric.AddOption{set}, []metric.RecordOption{set}})
	return options.(*moveOptions) //nolint:errcheck // nothing else is stored
}

func (m *meters) ofAttempt(e *saga.Event) []metric.RecordOption {
	of := attempt{e.Name, e.Step, e.Undo, e.Outcome}
	if options, ok := m.attempted.Load(of); ok {
		return options.([]metric.RecordOption) //nolint:errcheck // nothing else is stored
	}
	options, _ := m.attempted.LoadOrStore(of, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
		attrName.String(e.Name), attrStep.String(e.Step), attrUndo.Bool(e.Undo), attrOutcome.String(e.Outcome.String())))})
	return options.([]metric.RecordOption) //nolint:errcheck // nothing else is stored
}

// A Source has the numbers of a journal: a [saga.Engine] or a [saga.Operator].
type Source interface {
	Stats(ctx context.Context) (journal.Stats, error)
}

// statuses are those of which each has a number, even if it is 0.
var statuses = []journal.Status{
	journal.Running, journal.Compensating, journal.Completed, journal.Compensated, journal.Stuck, journal.Abandoned,
}

// gauges are the instruments of a journal.
type gauges struct {
	up, sagas, unowned, deferred, asleep metric.Int64ObservableGauge
	oldest                               metric.Float64ObservableGauge
}

// Watch adds the journal's numbers to the metrics, until [Observer.Close]. The journal is asked at each reading: one
// process of a fleet is enough. A nil source is a [*ConfigError]. Another error is the MeterProvider's.
func (o *Observer) Watch(s Source) error {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return &ConfigError{"Watch", "of nil"}
	}
	var errs [6]error
	count := func(err *error, name, unit, text string) (i metric.Int64ObservableGauge) {
		i, *err = o.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		return i
	}
	g := &gauges{
		up:       count(&errs[0], "fanonce.saga.journal.up", "", "1 if the journal answered, else 0."),
		sagas:    count(&errs[1], "fanonce.saga.sagas", "{saga}", "Sagas by status."),
		unowned:  count(&errs[2], "fanonce.saga.unowned", "{saga}", "Sagas that wait for an engine."),
		deferred: count(&errs[3], "fanonce.saga.deferred", "{saga}", "Sagas that wait for another build."),
		asleep:   count(&errs[4], "fanonce.saga.asleep", "{saga}", "Sagas that nobody may claim yet."),
	}
	g.oldest, errs[5] = o.meter.Float64ObservableGauge("fanonce.saga.oldest_unfinished", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest saga that is not over; 0 if there is none."))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	registration, err := o.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		g.read(ctx, s, to)
		return nil // an error would be logged at each reading, and up says it
	}, g.up, g.sagas, g.unowned, g.deferred, g.asleep, g.oldest)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unwatch = append(o.unwatch, registration.Unregister)
	return nil
}

func (g *gauges) read(ctx context.Context, s Source, to metric.Observer) {
	stats, err := s.Stats(ctx)
	if err != nil {
		to.ObserveInt64(g.up, 0)
		return
	}
	to.ObserveInt64(g.up, 1)
	for _, status := range statuses {
		to.ObserveInt64(g.sagas, stats.ByStatus[status], metric.WithAttributes(attrStatus.String(status.String())))
	}
	to.ObserveInt64(g.unowned, stats.Unowned)
	to.ObserveInt64(g.deferred, stats.Deferred)
	to.ObserveInt64(g.asleep, stats.Asleep)
	to.ObserveFloat64(g.oldest, stats.OldestUnfinished.Seconds())
}
