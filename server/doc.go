// Package server guards the handlers of a service. A handler takes effect once for each
// idempotency key, and every repeat gets the first answer. Requests may be lost, repeated
// or delayed, and processes may be killed.
//
// Start with [NewGuard]. [Handle] serves a typed operation, and [Guard.Handler] guards any
// http.Handler:
//
//	guard, err := server.NewGuard(store, scope, server.Config{})
//	…
//	err = server.Handle(mux, guard, inventoryapi.Reserve, server.Transactional, reserve)
//
// Each route declares where its effects are: [Transactional], [Keyed] or [Opaque]. The class
// decides which answers are stored, and what follows when a run fails or its process dies.
// [Effect] has the table.
//
// A guard claims the key before the handler runs, and answers after claim and answer are
// durable. The same engine guards plain functions ([Do]) and consumers of messages (package inbox).
//
// A handler passes its ctx to these functions: [Settle] changes how the run ends. [Barrier] tells
// an undo what it has to undo. [Fence] and [store.OnComplete] serve special cases.
//
// The ctx of a run has these keys. The hop key is made of scope, namespace and inbound key ([childkey.Hop]):
//
//	                 of this request       of the request that it undoes
//	hop key          childkey.FromContext  ForwardKey
//	inbound key      InboundKey            InboundForwardKey
//
// The hop key is for what the run makes. It is the parent of the run's own calls, and it names the run's rows, because no
// other caller's request has it. An undo finds those rows and calls by ForwardKey. Most handlers need no other key.
//
// The inbound key is for what the caller knows: it is in the caller's log and in its look-ups. Another caller may send the
// same one, so a row has it together with the scope.
//
// A refusal is a problem (RFC 9457). Its code is also in the Idempotency-Code header.
// [Config].RenderProblem changes the body, and [Route].Key reads keys from another place.
//
// [Guard.Serve] serves, sweeps and stops; [Guard.ReadyHandler] is the readiness probe. People
// resolve keys that no run can end: [Guard.ListStuck], [Guard.Resolve], [Guard.Forget]. A
// [Route].Reconcile does it by a program. Callers see the state of their key through
// [Guard.LookupHandler].
//
// The promise has a limit. An effect outside the store's database happens once only if the
// next service deduplicates by our child key (Keyed). Otherwise (Opaque) a crash, a panic or
// a 5xx ends in a visible outcome-unknown. Then the key runs again only after a decision: by a
// person, by Reconcile, or by the handler itself ([Release], or a status such as 429).
//
// The package imports no database driver and no package of the callers' side. DESIGN.md draws
// the states.
package server
