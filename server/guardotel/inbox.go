package guardotel

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/fanonce/fanonce/server"
)

// The buckets are those of package guardprom. A message may wait for days, and a broker may deliver it often.
var (
	ageBounds      = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}
	attemptsBounds = []float64{1, 2, 3, 4, 5, 7, 10, 15, 20}
)

// messageMeters are the histograms of messages. Their deliveries are counted as all events are.
type messageMeters struct {
	age      metric.Float64Histogram
	attempts metric.Int64Histogram
}

func newMessageMeters(meter metric.Meter) (m messageMeters, err error) {
	m.age, err = meter.Float64Histogram("fanonce.guard.message.age", metric.WithUnit("s"),
		metric.WithDescription("Age of a message when it was handled, where inbox.Message has its time."),
		metric.WithExplicitBucketBoundaries(ageBounds...))
	if err != nil {
		return m, err
	}
	m.attempts, err = meter.Int64Histogram("fanonce.guard.message.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts after which a message was handled or given up."),
		metric.WithExplicitBucketBoundaries(attemptsBounds...))
	return m, err
}

// observe records what became of a message.
func (m *messageMeters) observe(ctx context.Context, r *route, e *server.Event) {
	if e.Kind != server.EventMessageRan && e.Kind != server.EventMessageDead {
		return
	}
	if e.Count > 0 {
		m.attempts.Record(ctx, int64(e.Count), r.times...)
	}
	if e.Kind == server.EventMessageRan && e.Duration > 0 {
		m.age.Record(ctx, e.Duration.Seconds(), r.times...)
	}
}
