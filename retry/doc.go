// Package retry makes one call in many attempts under one key. In the end it reports what is
// known about the effect of the call ([Outcome]).
//
// [New] returns a [Client]. [Client.Send] makes a call over HTTP, and returns a complete 2xx
// answer or an [*Error]. [Client.Do] takes an http.Request. [Client.RoundTripper] is the
// transport of an existing http.Client. [Do] retries a call that is not HTTP.
//
// [Config].Profile describes how a service takes keys. [StatusVerdict], [CodeVerdict] and
// [GRPCVerdict] show what each failure means, and whether it is retried.
//
// The package is built on go-retryablehttp. DESIGN.md lists the habits of that package which
// it does not share. It knows keys and the wire, but no fan-outs and no stores.
package retry
