// Package retryotel shows the calls of a retry.Client, or of an sdk.Client, in OpenTelemetry, as spans and metrics:
//
//	telemetry, err := retryotel.New(retryotel.Config{})
//	cfg := retry.Config{Observer: telemetry, Prepare: telemetry.Prepare} // sends the trace context
//	client, err := sdk.New(sdk.Config{Services: services, Retry: cfg})
//
// Each call has a span "call SERVICE OPERATION" with its retries, and each attempt a span of kind client below it. The
// attributes of an attempt are those of OpenTelemetry's semantic conventions, version 1.45.0:
//
//	server.address, server.port                    of the service
//	http.request.method, url.full                  over HTTP; the URL is without user, query and fragment
//	http.request.resend_count                      over HTTP, from the second attempt on
//	http.response.status_code                      over HTTP, at the end
//	rpc.system.name, rpc.method                    over gRPC and connect, of the clients and services of package sdkgrpc
//	rpc.status_code                                over gRPC and connect, at the end: "UNAVAILABLE", "unavailable"
//	error.type                                     at the end: the problem code, else the status, else "timeout", "canceled"
//	                                               or "connection"
//
// The conventions no longer have rpc.service and rpc.grpc.status_code: rpc.method has the service before the method's name.
// Calls and attempts also have fanonce.service, fanonce.operation, fanonce.outcome and fanonce.key.digest, an attempt its
// number in fanonce.attempt, and a call their number in fanonce.attempts. All attempts of a call have one key, so the digest
// finds the callee's spans too. What is known at the beginning is given to the span at its start, so that samplers see it,
// but for the digest.
//
// The metrics fanonce.retry.call.duration and fanonce.retry.attempt.duration are in seconds, by service, operation and
// outcome, with exemplars. fanonce.retry.replays counts the calls that got an earlier request's answer.
//
// No span and no metric has a key or a body; a URL has the path that the caller chose. An error is named by its problem
// code, its status or its kind, and never by its text. Baggage is sent only if Config.Propagator does so. A call that nobody
// samples computes no digest (BenchmarkUnsampled).
package retryotel
