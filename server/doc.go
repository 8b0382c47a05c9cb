// Package server is the callee: it makes a handler take effect once per
// idempotency key, whatever is lost, repeated or killed on the way, and gives
// every duplicate the first answer.
//
// Start with [NewGuard], and [Handle] for typed operations or [Guard.Handler]
// for any http.Handler. Each route declares its effects, [Transactional],
// [Keyed] or [Opaque]: that decides what follows when a run fails or its
// process dies, and which answers are stored ([Effect] has the table).
//
//	guard, err := server.NewGuard(store, scope, server.Config{})
//	…
//	err = server.Handle(mux, guard, inventoryapi.Reserve, server.Transactional, reserve)
//
// A key is claimed durably before its handler runs, the answer leaves after it
// is stored, and everything in between is fenced. DESIGN.md draws the states.
//
// The same engine guards plain functions ([Do]) and consumers of messages
// ([Inbox]). A handler says more with its ctx: [Fence], [Barrier] and [ForwardKey]
// for undos, [InboundKey], [Rollback], [Retryable], [Final], [Veto], [NoStore], [OnComplete].
// People and reconcilers end what no run can: [Guard.ListStuck], [Guard.Resolve],
// [Guard.Forget], [Route].Reconcile; callers look with [Guard.LookupHandler] and
// read the rules from [Guard.PolicyHandler]. A refusal is a problem (RFC 9457) whose code is
// in Idempotency-Code too; [Config].RenderProblem gives it the service's own shape, and
// [Route].Key reads keys from elsewhere than the Idempotency-Key header. Let [Guard.RunSweeper] run beside the
// requests, and call [Guard.Shutdown] at the end, which ends it too.
//
// What it does not promise: an effect outside the store's database is made
// once only if the next hop deduplicates by our child key (Keyed). Otherwise
// (Opaque) a crash, a panic or a 5xx ends in a visible outcome-unknown, and no second
// run follows unless somebody says so: a person, [Route].Reconcile, or the handler, by
// [Retryable] or by a status that stands for "nothing was done", such as 429.
//
// The package knows stores only as the [Store] interface. It imports no
// database driver, and nothing of the caller's side.
package server
