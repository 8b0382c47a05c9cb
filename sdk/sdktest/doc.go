// Package sdktest has callees for tests of callers: a [Downstream] is a service
// on loopback that runs each key once, misbehaves by script, and records what
// it saw. Start with [New] and [Downstream.Script].
//
// It does with keys what a guarded service does, in memory and without leases;
// it is no substitute for one outside of tests. It stores answers below 500, except 401,
// 403, 407, 408, 421, 423, 425 and 429: those say that nothing was done, and the next
// delivery of the key is served. It reads keys from
// Idempotency-Key, as they come; [KeyHeader] and [KeyMember] say where else a
// profile of the caller's puts them. What it cannot find a key in it does for every
// delivery.
package sdktest
