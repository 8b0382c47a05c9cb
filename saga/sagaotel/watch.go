package sagaotel

import (
	"context"
	"errors"
	"reflect"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fanonce/fanonce/saga/gauges"
	"github.com/fanonce/fanonce/saga/journal"
)

// A Source has the numbers of a journal: a [saga.Engine] or a [saga.Operator].
type Source interface {
	Stats(ctx context.Context) (journal.Stats, error)
}

// statuses are those of which each has a number, even if it is 0.
var statuses = []journal.Status{
	journal.Running, journal.Compensating, journal.Completed, journal.Compensated, journal.Stuck, journal.Abandoned,
}

// instruments are those of a journal.
type instruments struct {
	of    attribute.KeyValue
	stats *gauges.Stats

	up, sagas, unowned, deferred, asleep metric.Int64ObservableGauge
	oldest, age                          metric.Float64ObservableGauge
}

// Watch adds the journal's numbers to the metrics, until [Observer.Close]. One process of a fleet is enough.
//
// A reading of the metrics waits for nothing. It shows the numbers that are known, and begins to ask the journal for new
// ones: at most every 10 s, for 5 s, and once at a time. So the first reading has none. If the journal does not answer, the
// old numbers stay, and fanonce.saga.read.age grows. The journal is asked only while somebody reads the metrics.
//
// A nil source, and a second call before Close, are a [*ConfigError]. Another error comes from the MeterProvider.
func (o *Observer) Watch(s Source) error {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return &ConfigError{"Watch", "of nil"}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unwatchFunc != nil {
		return &ConfigError{"Watch", "of a second journal: make an Observer for each engine"}
	}
	g, err := newInstruments(o.meter)
	if err != nil {
		return err
	}
	g.of, g.stats = attrJournal.String(o.name), gauges.Watch(s.Stats)
	registration, err := o.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		g.observe(to)
		return nil
	}, g.up, g.sagas, g.unowned, g.deferred, g.asleep, g.oldest, g.age)
	if err != nil {
		return err
	}
	o.unwatchFunc = func() error {
		defer g.stats.Stop()
		return registration.Unregister()
	}
	return nil
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	var errs [7]error
	count := func(err *error, name, unit, text string) (i metric.Int64ObservableGauge) {
		i, *err = meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		return i
	}
	age := func(err *error, name, text string) (f metric.Float64ObservableGauge) {
		f, *err = meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
		return f
	}
	g := &instruments{
		up:       count(&errs[0], "fanonce.saga.journal.up", "", "1 if the journal answered when it was asked last, else 0."),
		sagas:    count(&errs[1], "fanonce.saga.sagas", "{saga}", "Sagas by status."),
		unowned:  count(&errs[2], "fanonce.saga.unowned", "{saga}", "Sagas that wait for an engine."),
		deferred: count(&errs[3], "fanonce.saga.deferred", "{saga}", "Sagas that wait for another build."),
		asleep:   count(&errs[4], "fanonce.saga.asleep", "{saga}", "Sagas that nobody may claim yet."),
		oldest:   age(&errs[5], "fanonce.saga.oldest_unfinished", "Age of the oldest saga that is not over; 0 if there is none."),
		age:      age(&errs[6], "fanonce.saga.read.age", "Time since the journal was asked for these numbers."),
	}
	return g, errors.Join(errs[:]...)
}

func (g *instruments) observe(to metric.Observer) {
	of := metric.WithAttributes(g.of)
	r := g.stats.Get()
	switch {
	case r.Err != nil:
		to.ObserveInt64(g.up, 0, of)
	case r.Known:
		to.ObserveInt64(g.up, 1, of)
	}
	if !r.Known {
		return
	}
	for _, status := range statuses {
		to.ObserveInt64(g.sagas, r.Value.ByStatus[status], of, metric.WithAttributes(attrStatus.String(status.String())))
	}
	to.ObserveInt64(g.unowned, r.Value.Unowned, of)
	to.ObserveInt64(g.deferred, r.Value.Deferred, of)
	to.ObserveInt64(g.asleep, r.Value.Asleep, of)
	to.ObserveFloat64(g.oldest, r.Value.OldestUnfinished.Seconds(), of)
	to.ObserveFloat64(g.age, r.Age.Seconds(), of)
}
