// Package sdk calls the operations of package contract, each under a child key of the request
// that it serves. Start with [New]. [Call] makes one call. [Client.Fanout] and [Add] make many
// at the same time.
//
// The ctx carries the parent key. A guarded handler's ctx has one. Elsewhere [Begin] makes one
// from a business id. The same code under the same parent key sends the same keys and bodies in
// every process. To resume after a crash, run the code again.
//
// The error of a call is a [*retry.Error] with a retry.Outcome. [Resumable] reports whether
// running the code again can help. [CallUndo] and [AddUndo] undo a call.
//
// [Client.Send] makes calls that no operation describes. [Client.RoundTripper] gives keys to
// the calls of a generated client. [Service].Profile is for services of other vendors.
//
// The package imports no server and no store. The callees remember the calls.
package sdk
