// Package adaptertest is the conformance suite for adapters of a guard: for what leads the calls of a framework or a
// protocol into a [server.Guard], and the handlers behind it.
//
// Call [Test] from a test of the adapter, with a function that serves one operation under it:
//
//	func TestAdapter(t *testing.T) {
//		adaptertest.Test(t, func(tb testing.TB, op adaptertest.Operation) adaptertest.Caller { … })
//	}
//
// The suite asks above all what follows a conflict of transactions. The guard rolls the first run back, and runs the
// handler again in the same call. An adapter whose handlers run once only would then store an answer without an effect.
//
// Calls go over whatever the adapter serves, such as a socket. The effects are those of a store in memory.
package adaptertest
