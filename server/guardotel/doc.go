// Package guardotel shows the calls and runs of a guard in OpenTelemetry, as spans and metrics:
//
//	telemetry, err := guardotel.New(guardotel.Config{Store: store})
//	guard, err := server.NewGuard(store, scope, server.Config{Observer: telemetry})
//	handler, err := guard.Handler(server.Keyed, orders)
//	http.ListenAndServe(addr, otelhttp.NewHandler(handler, "orders")) // continues the caller's trace
//	defer telemetry.Close()
//
// Each call has a span "guard ROUTE", and each run of a handler a span "run ROUTE" below it. The span of a
// replay has a link to the run that made the answer, in whichever process and trace that was.
//
// No span and no metric has a key, scope or body: spans have the key's digest and the record's ID. Errors are
// named by their code, because their texts may hold data.
package guardotel
