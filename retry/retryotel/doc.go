// Package retryotel shows the calls of a retry.Client, or of an sdk.Client, in OpenTelemetry, as spans and metrics:
//
//	telemetry, err := retryotel.New(retryotel.Config{})
//	cfg := retry.Config{Observer: telemetry, Prepare: telemetry.Prepare} // sends the trace context
//	client, err := sdk.New(sdk.Config{Services: services, Retry: cfg})
//
// Each call has a span "call SERVICE OPERATION", and each attempt a span of kind client below it. All attempts of a
// call have one key, so the key's digest finds the callee's spans too. No span and no metric has a key or a body.
package retryotel
