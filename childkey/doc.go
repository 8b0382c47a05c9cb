// Package childkey makes the idempotency keys that a request and the calls
// made on its behalf travel under.
//
// A request has one parent key ([New], [Parse], [FromParts]). Every downstream
// call has a child key that [Derive] computes from the parent key and the
// names of the service and the operation called. The same intent gives the
// same key: on every attempt, every replica and after every restart.
//
// The package knows nothing of HTTP, databases or retries. SPEC.md lays out
// the bytes for other languages.
package childkey
