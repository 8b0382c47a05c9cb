// Package servertest is the conformance suite for every store.Store. It provokes the races,
// the lost answers and the slow owners that break stores.
//
// Call [TestStore] from a test of the store. Call [TestTxStore] too if runs can have effects in
// the store's database:
//
//	func TestStore(t *testing.T) {
//		servertest.TestStore(t, func(tb testing.TB) store.Store { return mystore.New(…) })
//	}
//
// [CheckModel] compares a store with a model, for any number of steps. It suits a fuzz target.
//
// The suite knows only the methods of a store. It takes the time from the store's records and
// never from its own clock. It waits for the end of a lease by asking the store.
package servertest
