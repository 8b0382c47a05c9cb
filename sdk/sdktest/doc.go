// Package sdktest has callees for tests of callers: a [Downstream] is a service
// on loopback that runs each key once, misbehaves by script, and records what
// it saw. Start with [New] and [Downstream.Script].
//
// It does with keys what a guarded service does, in memory and without leases;
// it is no substitute for one outside of tests. It reads keys from
// Idempotency-Key, as they come; [KeyHeader] and [KeyMember] say where else a
// profile of the caller's puts them. What it cannot find a key in it does for every
// delivery.
package sdktest
