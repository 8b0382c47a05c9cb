// Package sagaotel shows sagas in OpenTelemetry, as spans and metrics:
//
//	telemetry, err := sagaotel.New(sagaotel.Config{})
//	engine, err := saga.Open(ctx, journal, saga.Config{Observer: telemetry, Definitions: definitions, Client: client})
//	err = telemetry.Watch(engine) // how many sagas are stuck, and how old the oldest is
//	receipt, err := Checkout.Run(ctx, engine, key, order) // in the trace of ctx
//	defer telemetry.Close()
//
// An engine's work on a saga has a span "saga NAME", and each attempt of a step a span "step NAME STEP" or "undo NAME
// STEP" below it. The journal stores the trace context of the call that started the saga. An engine that takes
// the saga over continues that trace: a saga is one trace, however many processes died under it.
//
// A reading of the metrics, such as a scrape of the exporter, asks and waits for nothing. The journal is asked in the
// background, by a question that has a bound: [Observer.Watch] says what it costs.
//
// No span and no metric has a key, a scope, an input or a result.
package sagaotel
