// Package guardotel shows the calls and runs of a guard in OpenTelemetry, as spans and metrics:
//
//	telemetry, err := guardotel.New(guardotel.Config{Name: "orders", Store: store})
//	guard, err := server.NewGuard(store, scope, server.Config{Observer: telemetry})
//	handler, err := guard.Handler(server.Keyed, orders)
//	http.ListenAndServe(addr, otelhttp.NewHandler(handler, "orders")) // continues the caller's trace
//	defer telemetry.Close()
//
// Each call has a span "guard ROUTE", and each run of a handler a span "run ROUTE" below it. They begin with the attributes
// fanonce.guard, fanonce.route and fanonce.effect, so that samplers see these. A recorded span also gets fanonce.key.digest,
// fanonce.record.id, fanonce.fence, fanonce.outcome and error.type. The span of a replay has a link to the run that made
// the answer, in whichever process and trace that was, because the guard stores the trace context of a sampled run with the
// answer.
//
// The metrics are those of package guardprom: fanonce.guard.events is fanonce_guard_events_total behind the Prometheus
// exporter. Their attributes are guardprom's labels with "fanonce." before them: fanonce.guard for guard. Histograms have
// exemplars of the runs.
//
// A reading of the metrics, such as a scrape of the exporter, sends nothing and waits for nothing. The store is asked in the
// background, by questions that have a bound: package guardprom says what they cost. So a reading shows the numbers for
// which the one before it asked, and the first has none of the store.
//
// No span and no metric has a key, scope or body: spans have the key's digest and the record's ID. Errors are
// named by their code, because their texts may hold data. A call that nobody samples computes no digest and no attribute.
package guardotel
