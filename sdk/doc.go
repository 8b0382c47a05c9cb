// Package sdk is the caller's side: it calls the operations of package
// contract, one by one ([Call]) or many at a time ([Client.Fanout], [Go]),
// each under a child key of the request it is made for. Start with [New].
//
// The parent key comes from ctx: a guarded handler's ctx has it, elsewhere
// [Begin] puts it there, from a business id. The same code under the same parent key
// sends the same keys and bodies, in whatever process and however often it
// runs: to resume after a crash, run it again.
//
// How a call ended is a retry.Outcome, in every error as a [*retry.Error];
// [Resumable] says whether to run the code again. [Client.Send] makes calls that no
// operation describes, [Client.RoundTripper] gives keys to the calls of a generated client,
// and [Service.Profile] is for services that are not this library's.
//
// The package knows neither a server nor a store: it remembers nothing that
// the callees do not remember better.
package sdk
