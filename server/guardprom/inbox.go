package guardprom

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanonce/fanonce/server"
)

// The buckets are those of package guardotel. A message may wait for days, and a broker may deliver it often.
var (
	ageBuckets      = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}
	attemptsBuckets = []float64{1, 2, 3, 4, 5, 7, 10, 15, 20}
)

// messageMetrics are the histograms of messages. Their deliveries are counted as all events are.
type messageMetrics struct{ age, attempts *prometheus.HistogramVec }

func newMessageMetrics(of prometheus.Labels) *messageMetrics {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets, ConstLabels: of,
		}, []string{labelRoute})
	}
	return &messageMetrics{
		age:      histogram("fanonce_guard_message_age_seconds", "Age of a message when it was handled, where inbox.Message has its time.", ageBuckets),
		attempts: histogram("fanonce_guard_message_attempts", "Attempts after which a message was handled or given up.", attemptsBuckets),
	}
}

// observeMessage observes what became of a message.
func (c *Collector) observeMessage(ctx context.Context, e *server.Event) {
	if e.Kind != server.EventMessageRan && e.Kind != server.EventMessageDead {
		return
	}
	if e.Count > 0 {
		c.messages.attempts.WithLabelValues(e.Route).Observe(float64(e.Count))
	}
	if e.Kind == server.EventMessageRan && e.Duration > 0 {
		c.time(ctx, c.messages.age.WithLabelValues(e.Route), e.Duration)
	}
}
