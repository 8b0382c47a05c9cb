package sagaotel

import (
	"cmp"
	"context"
	"errors"
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

// kindOfStep is the name of the event's step, or of the Each that it is an item of: the items' names are data, and many.
func kindOfStep(e *saga.Event) string { return cmp.Or(e.Each, e.Step) }

func (m *meters) ofAttempt(e *saga.Event) []metric.RecordOption {
	of := attempt{e.Name, kindOfStep(e), e.Undo, e.Outcome}
	if options, ok := m.attempted.Load(of); ok {
		return options.([]metric.RecordOption) //nolint:errcheck // nothing else is stored
	}
	options, _ := m.attempted.LoadOrStore(of, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
		attrName.String(e.Name), attrStep.String(of.step), attrUndo.Bool(e.Undo), attrOutcome.String(e.Outcome.String())))})
	return options.([]metric.RecordOption) //nolint:errcheck // nothing else is stored
}
