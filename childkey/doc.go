// Package childkey makes idempotency keys: for a request, and for the calls made on its
// behalf.
//
// A request has one parent key ([New], [Parse], [FromParts]). Every downstream call has a
// child key. [Derive] computes it from the parent key, the names of service and operation,
// and the discriminators of several such calls. The same intent has the same key on every
// attempt, on every replica and after every restart. Package sdk derives by itself, from the
// parent key in its ctx ([NewContext]).
//
// Inside a guarded handler the parent key is the hop key ([Hop]), which depends on the caller.
// Two callers who choose the same key therefore share no child key.
//
// [Sum] and [Encoding] serve callees that take keys in another form. [Keyed] keeps third
// parties from computing other keys. [Family] notices one key with two payloads.
//
// A key is a name and not a proof. Everybody who knows a parent key can compute its child keys,
// so a key never authorizes anything.
//
// The package is independent of HTTP, databases and retries. SPEC.md has the bytes for other
// languages.
package childkey
