// Package faultnet is a bad network, made to order. Each edge between two services is an HTTP
// proxy on loopback. It loses, repeats, cuts and delays messages, and counts its faults.
//
// Start with [Listen], point the caller at [Edge.URL], and the edge at the
// callee with [Edge.Forward]. The fault of a request depends only on the seed, the
// edge, the request's path and body, and how often the edge has seen that request
// before. An edge does not read idempotency keys. It may also have an AnswerTimeout,
// as gateways have.
package faultnet
