package guardprom

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanonce/fanonce/server/store"
)

// A storeMetrics asks a store when Prometheus scrapes. A store that does not answer makes no scrape fail: its numbers are
// missing, and fanonce_store_up is 0.
type storeMetrics struct {
	store          store.Store
	every, timeout time.Duration

	up, records, oldest, bytes, standbys, attention, oldestAttention *prometheus.Desc

	mu    sync.Mutex // also lets one scrape at a time ask
	stats store.Stats
	asked time.Time // zero: never
	known bool      // stats holds an answer
}

func newStoreMetrics(cfg Config) *storeMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &storeMetrics{
		store: cfg.Store, every: cfg.StatsEvery, timeout: cfg.Timeout,
		up:              desc("fanonce_store_up", "1 if the store answered this scrape, else 0."),
		records:         desc("fanonce_store_records", "Records by state.", labelState),
		oldest:          desc("fanonce_store_oldest_in_progress_seconds", "Age of the oldest record in progress; 0 if there is none."),
		bytes:           desc("fanonce_store_size_bytes", "Size of the table with its indexes; 0 if the store cannot tell."),
		standbys:        desc("fanonce_store_async_standbys", "Standbys that can lack an answer that was given."),
		attention:       desc("fanonce_store_attention", "Keys that need a person, by reason.", labelReason),
		oldestAttention: desc("fanonce_store_oldest_attention_seconds", "Age of the oldest key that needs a person; 0 if there is none."),
	}
}

func (m *storeMetrics) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.up, m.records, m.oldest, m.bytes, m.standbys, m.attention, m.oldestAttention} {
		to <- d
	}
}

// states are the states of records, so that each has a number, even if it is 0.
var states = []store.State{
	store.StateInProgress, store.StateCompleted, store.StateReleased, store.StateUnknown, store.StateQuarantined, store.StateCancelled,
}

func (m *storeMetrics) collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	need, err := m.store.Reader().Attention(ctx)
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if err == nil {
		gauge(m.attention, float64(need.Unknown), "unknown")
		gauge(m.attention, float64(need.Quarantined), "quarantined")
		gauge(m.attention, float64(need.DeadLetters), "dead_letter")
		gauge(m.oldestAttention, need.Oldest.Seconds())
	}
	fresh := m.refresh(ctx)
	if m.known {
		for _, s := range states {
			gauge(m.records, float64(m.stats.ByState[s]), s.String())
		}
		gauge(m.oldest, m.stats.OldestInProgress.Seconds())
		gauge(m.bytes, float64(m.stats.Bytes))
		gauge(m.standbys, float64(m.stats.AsyncStandbys))
	}
	if err == nil && fresh {
		gauge(m.up, 1)
	} else {
		gauge(m.up, 0)
	}
}

// refresh asks for the stats if they are due. It returns false if the store did not answer. Numbers that are
// older than they may be are dropped: an alert must not rely on them.
func (m *storeMetrics) refresh(ctx context.Context) bool {
	if m.known && time.Since(m.asked) < m.every {
		return true
	}
	stats, err := m.store.Stats(ctx)
	m.known = err == nil
	if m.known {
		m.stats, m.asked = stats, time.Now()
	}
	return m.known
}
