// Package guardotel shows the calls and runs of a guard in OpenTelemetry, as spans and metrics:
//
//	telemetry, err := guardotel.New(guardotel.Config{Store: store})
//	guard, err := server.NewGuard(store, scope, server.Config{Observer: telemetry})
//	handler, err := guard.Handler(server.Keyed, orders)
//	http.ListenAndServe(addr, otelhttp.NewHandler(handler, "orders")) // continues the caller's trace
//	defer telemetry.Close()
//
// Each call has a span "guard ROUTE", and each run of a handler a span "run ROUTE" below it. Their attributes are
// fanonce.route, fanonce.effect, fanonce.key.digest, fanonce.record.id, fanonce.fence, fanonce.outcome and error.type.
// The span of a replay has a link to the run that made the answer, in whichever process and trace that was, because the
// guard stores the trace context of a sampled run with the answer.
//
// The metrics are those of package guardprom: fanonce.guard.events is fanonce_guard_events_total behind the Prometheus
// exporter. Histograms have exemplars of the runs.
//
// No span and no metric has a key, scope or body: spans have the key's digest and the record's ID. Errors are
// named by their code, because their texts may hold data. A call that nobody samples computes no digest and no attribute.
package guardotel
