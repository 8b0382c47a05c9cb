// Package retryotel shows the calls of a retry.Client, or of an sdk.Client, in OpenTelemetry, as spans and metrics:
//
//	telemetry, err := retryotel.New(retryotel.Config{})
//	cfg := retry.Config{Observer: telemetry, Prepare: telemetry.Prepare} // sends the trace context
//	client, err := sdk.New(sdk.Config{Services: services, Retry: cfg})
//
// Each call has a span "call SERVICE OPERATION" with its retries, and each attempt a span of kind client below it, with
// http.response.status_code and http.request.resend_count. Both have fanonce.outcome and fanonce.key.digest. All attempts
// of a call have one key, so the digest finds the callee's spans too.
//
// The metrics fanonce.retry.call.duration and fanonce.retry.attempt.duration are in seconds, by service, operation and
// outcome, with exemplars. fanonce.retry.replays counts the calls that got an earlier request's answer.
//
// No span and no metric has a key or a body. An error is named by its problem code, its status or its kind, and never by
// its text. Baggage is sent only if Config.Propagator does so. A call that nobody samples computes no digest and no
// attribute (BenchmarkUnsampled).
package retryotel
