// Package sdktest has callees for tests of callers. A [Downstream] is a service on loopback. It
// runs each key once, fails by script, and records its requests. Start with [New] and
// [Downstream.Script].
//
// A Downstream treats keys as a guarded service does, in memory and without leases. Use it in
// tests only. It stores answers below 500, except 401, 403, 407, 408, 421, 423, 425 and 429.
// After these the next delivery of the key is served.
//
// It reads keys from Idempotency-Key. [KeyHeader] and [KeyMember] choose another place, as a
// profile of the caller does. It serves every delivery without a key.
package sdktest
