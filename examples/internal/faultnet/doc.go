// Package faultnet is a bad network, made to order. Each edge between two services is an HTTP
// proxy on loopback. It loses, repeats, cuts and delays messages, and counts its faults.
//
// Start with [Listen], point the caller at [Edge.URL], and the edge at the
// callee with [Edge.Forward]. What befalls a request is a pure function of the
// seed, the edge, the request's path and body, and how often that same request
// was seen before: an edge knows nothing of idempotency keys. Beside this, an
// edge may have an AnswerTimeout, as gateways have.
package faultnet
