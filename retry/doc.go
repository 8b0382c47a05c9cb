// Package retry makes one call in many attempts under one key, and says in the
// end what is known of its effect ([Outcome]).
//
// [New] returns a [Client], for services that take keys as [Config.Profile] says; [Client.Send] makes a call over HTTP and returns a
// complete 2xx answer or an [*Error]. [Client.Do] and [Client.RoundTripper] serve
// code that has an http.Request or an http.Client, and the latter passes on all else that
// such a client sends; [Do] gives the same policy to a
// call over anything else. What each failure means, and whether it is retried, is
// data: [StatusVerdict], [CodeVerdict] and [GRPCVerdict] show it, and [GRPCStatus]
// reads the rest of what a gRPC call says.
//
// The package stands on go-retryablehttp; DESIGN.md says how, and which of its
// habits it does not take over. It knows keys and the wire, and neither
// fan-outs nor stores.
package retry
