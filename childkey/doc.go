// Package childkey makes the idempotency keys that a request and the calls
// made on its behalf travel under.
//
// A request has one parent key ([New], [Parse], [FromParts]). Every downstream
// call has a child key that [Derive] computes from the parent key, the names of
// the service and the operation called, and what tells several such calls apart.
// The same intent gives the same key: on every attempt, every replica and after
// every restart. Start with [Parse] and [Derive]; package sdk derives by itself,
// and needs a parent key in its ctx ([NewContext]).
//
// A service that was called under a key derives its own calls from the hop key
// ([Hop]), which depends on who called. Two callers who choose the same key
// therefore have no child key in common.
//
// [Sum] and [Encoding] are for callees that take keys in another form, [Keyed]
// for those that must not compute the keys of others, [Family] for noticing one
// key with two payloads. A key is a name, not a proof: whoever knows a parent
// knows its children, so that keys never authorize anything.
//
// The package knows nothing of HTTP, databases or retries. SPEC.md lays out
// the bytes for other languages.
package childkey
