// Package sdktest has callees for tests of callers: a [Downstream] is a service
// on loopback that runs each key once, misbehaves by script, and records what
// it saw. Start with [New] and [Downstream.Script].
//
// It does with keys what a guarded service does, in memory and without leases;
// it is no substitute for one outside of tests. It reads keys from
// Idempotency-Key, as they come. One that travels elsewhere, by a profile of the
// caller's, it does not see: then it does the work for every delivery.
package sdktest
