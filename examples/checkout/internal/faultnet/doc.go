// Package faultnet is a bad network, made to order: an HTTP proxy on loopback
// for each edge between two services, which loses, repeats, cuts and delays
// what passes, and counts what it did.
//
// Start with [Listen], point the caller at [Edge.URL], and the edge at the
// callee with [Edge.Forward]. What befalls a request is a pure function of the
// seed, the edge, the request's path and body, and how often that same request
// was seen before: an edge knows nothing of idempotency keys.
package faultnet
