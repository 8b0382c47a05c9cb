// Package guardprom shows a guard and its store to Prometheus, without OpenTelemetry:
//
//	metrics, err := guardprom.New(guardprom.Config{Name: "orders", Store: store})
//	guard, err := server.NewGuard(store, scope, server.Config{Observer: metrics})
//	prometheus.MustRegister(metrics)
//	http.Handle("/metrics", promhttp.Handler())
//
// The metrics and their labels:
//
//	fanonce_guard_events_total{guard, route, event}         events by server.EventKind; "swept" counts records
//	fanonce_guard_refusals_total{guard, route, error_type}  refused calls, by problem code
//	fanonce_guard_claim_duration_seconds{guard, route}      time that the store took to claim a key
//	fanonce_guard_wait_duration_seconds{guard, route}       time that a duplicate waited
//	fanonce_guard_pending_duration_seconds{guard, route}    time from the first claim to the answer
//	fanonce_guard_message_age_seconds{guard, route}         age of an inbox' message when it was handled
//	fanonce_guard_message_attempts{guard, route}            attempts after which a message was handled or given up
//	fanonce_store_up{store}                                 1 if the store answered when it was asked last
//	fanonce_store_attention{store, reason}                  keys that need a person
//	fanonce_store_oldest_attention_seconds{store}           age of the oldest of them
//	fanonce_store_estimated_records{store}                  records, by the store's own statistics
//	fanonce_store_size_bytes{store}                         tables with indexes
//	fanonce_store_sweep_lag_seconds{store}                  how late the sweeper is
//	fanonce_store_async_standbys{store}                     standbys that can lack an answer
//	fanonce_store_oldest_in_progress_seconds{store}         age of the oldest record in progress
//	fanonce_store_records{store, state}                     records, counted: with Config.StatsEvery only
//	fanonce_store_read_age_seconds{store, read}             age of the numbers, by the read that they are of
//
// The deliveries of an inbox are events too: message_ran, message_duplicate, message_failed, message_dead and message_busy.
// Their route is "inbox CONSUMER". The ages are there if the consumer sets inbox.Message.Published.
//
// Config.Name is the guard and the store: give each guard of a process a name. No label holds a key, scope, ID or body.
//
// The names are those that package guardotel has behind OpenTelemetry's Prometheus exporter. There the labels are
// fanonce_guard, fanonce_route and so on.
//
// # What a scrape costs
//
// A scrape sends nothing and waits for nothing. It shows the numbers that are known, and begins to ask for new ones in the
// background. So the numbers are those for which the scrape before it asked, and the first scrape has none of the store. Each
// question has a time limit, and is asked once at a time, however many scrapers there are. After a failure too it waits
// for its turn:
//
//   - Attention at most every 5 s. It reads the oldest 2,500 notes of keys that need a person. Whether it succeeds
//     decides fanonce_store_up.
//   - Estimate at most every 30 s. In Postgres it reads statistics, the 10,000 records that expired first, and the 10,000
//     youngest records, by their indexes. Without pgstore.AddReaderIndexes it does not read the youngest, and
//     fanonce_store_oldest_in_progress_seconds is missing. A record in progress that is not among them does not count.
//   - Stats at most every Config.StatsEvery, and by default never: it counts every record.
//
// A number that cannot be read any more stays, and fanonce_store_read_age_seconds grows. Nothing is asked while nobody
// scrapes. One process of a fleet is enough to have the Store.
package guardprom
