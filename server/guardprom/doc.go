// Package guardprom shows a guard and its store to Prometheus, without OpenTelemetry:
//
//	metrics, err := guardprom.New(guardprom.Config{Store: store})
//	guard, err := server.NewGuard(store, scope, server.Config{Observer: metrics})
//	prometheus.MustRegister(metrics)
//	http.Handle("/metrics", promhttp.Handler())
//
// The names and labels are those that package guardotel has behind OpenTelemetry's Prometheus exporter: the same
// dashboard and the same alerts serve both. Labels are by route only: no metric has a key, scope, ID or body.
package guardprom
