// Package contract declares operations, typed and once, in a package that
// caller and callee both import:
//
//	var Reserve = contract.Post[Lines, Hold]("inventory", "reserve", "/reservations").UndoneBy(Release)
//	var Release = contract.Post[contract.Undo[Lines, Hold], struct{}]("inventory", "release", "/releases")
//
// UndoneBy names what undoes it, for fan-outs and sagas.
//
// The callee serves it with server.Handle, the caller calls it with sdk.Call
// or sdk.Add. Start with [Post]; [Operation.At] fills a path, [Operation.For]
// tells several calls apart.
//
// The package imports childkey and the standard library without net/http. It knows neither a
// client nor a server.
package contract
