// Package guardprom shows a guard and its store to Prometheus, without OpenTelemetry:
//
//	metrics, err := guardprom.New(guardprom.Config{Store: store})
//	guard, err := server.NewGuard(store, scope, server.Config{Observer: metrics})
//	prometheus.MustRegister(metrics)
//	http.Handle("/metrics", promhttp.Handler())
//
// The metrics and their labels:
//
//	fanonce_guard_events_total{fanonce_route, fanonce_event}  events by server.EventKind; "swept" counts records
//	fanonce_guard_refusals_total{fanonce_route, error_type}   refused calls, by problem code
//	fanonce_guard_claim_duration_seconds{fanonce_route}       time that the store took to claim a key
//	fanonce_guard_wait_duration_seconds{fanonce_route}        time that a duplicate waited
//	fanonce_guard_pending_duration_seconds{fanonce_route}     time from the first claim to the answer
//	fanonce_store_records{fanonce_state}                      records
//	fanonce_store_attention{fanonce_reason}                   keys that need a person
//	fanonce_store_oldest_attention_seconds                    age of the oldest of them
//	fanonce_store_oldest_in_progress_seconds                  age of the oldest record in progress
//	fanonce_store_size_bytes                                  table with indexes
//	fanonce_store_async_standbys                              standbys that can lack an answer
//	fanonce_store_up                                          1 if the store answered the scrape
//
// The names and labels are those that package guardotel has behind OpenTelemetry's Prometheus exporter: the same
// dashboard and the same alerts serve both. No label holds a key, scope, ID or body.
//
// Store.Stats may read the whole table. Scrapes share its answer for Config.StatsEvery, and one process of a fleet is
// enough to have the Store.
package guardprom
