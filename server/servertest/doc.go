// Package servertest is the law for every server.Store: what a store must do,
// written once, with the races, lost answers and slow owners that break stores.
//
// Call [TestStore] from a test of the store, and [TestTxStore] too if runs can
// have effects in its database:
//
//	func TestStore(t *testing.T) {
//		servertest.TestStore(t, func(tb testing.TB) server.Store { return mystore.New(…) })
//	}
//
// [CheckModel] compares a store with a model for as long as one likes; it suits
// a fuzz target.
//
// The laws know a store by its methods only. They read the time from its
// records and never compare it with their own clock, and they wait for the end
// of a lease by asking the store.
package servertest
