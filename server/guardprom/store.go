package guardprom

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanonce/fanonce/server/gauges"
)

// A storeMetrics shows what is known of a store. No scrape asks the store itself, and so none waits for it or fails.
type storeMetrics struct {
	numbers *gauges.Numbers
	descs   map[*gauges.Gauge]*prometheus.Desc
}

func newStoreMetrics(cfg Config) *storeMetrics {
	m := &storeMetrics{gauges.Watch(cfg.Store, cfg.StatsEvery), make(map[*gauges.Gauge]*prometheus.Desc)}
	for _, g := range gauges.All {
		var by []string
		if g.By != "" {
			by = []string{g.By}
		}
		m.descs[g] = prometheus.NewDesc(nameOf(g), g.Help, by, prometheus.Labels{labelStore: cfg.Name})
	}
	return m
}

// nameOf is the name of a gauge as OpenTelemetry's exporter makes it.
func nameOf(g *gauges.Gauge) string {
	name := strings.ReplaceAll(g.Name, ".", "_")
	switch g.Unit {
	case "s":
		return name + "_seconds"
	case "By":
		return name + "_bytes"
	default:
		return name
	}
}

func (m *storeMetrics) describe(to chan<- *prometheus.Desc) {
	for _, g := range gauges.All {
		to <- m.descs[g]
	}
}

func (m *storeMetrics) collect(to chan<- prometheus.Metric) {
	m.numbers.Each(func(g *gauges.Gauge, by string, value float64) {
		var labels []string
		if g.By != "" {
			labels = []string{by}
		}
		to <- prometheus.MustNewConstMetric(m.descs[g], prometheus.GaugeValue, value, labels...)
	})
}
