// Package console is an operations page for people. It shows the keys, sagas and dead letters of one or more services,
// and settles those that need a person. A [Console] is an http.Handler that a service mounts:
//
//	page, err := console.New(console.Config{
//		Prefix:       "/ops",
//		Stores:       []console.Store{{Name: "orders", Reader: reader, Guard: guard}},
//		Authenticate: authenticate,
//	})
//	mux.Handle("/ops/", page)
//
// The Reader comes from the store ([store.Store].Reader), or has a pool of its own (pgstore.NewReader). The guard is
// the service's own. Sagas have a journal's reader (pgjournal.NewReader), and the service's engine as their operator:
//
//	Sagas: []console.Sagas{{Name: "checkout", Reader: sagaReader, Operator: engine}},
//
// [New] makes the page, [Config] says what it shows, and [Config].Authenticate says who may see it. An [Observer]
// sees everything but bodies. An [Operator] may also change keys and sagas.
//
// The page reads by [store.Reader] and [journal.Reader] alone. Each answer of these has a bound in time. It changes
// keys by a [server.Guard], and sagas by a [SagaOperator]. Each change has a reason, a confirmation and a line in the
// audit log.
//
// # Safety
//
// Give the console a listener of its own, which the internet does not reach, and TLS. Open the Readers with the
// database role fanonce_observer, and the guards and operators with fanonce_runtime.
//
// Each request is authenticated, that for the style sheet too. Every change is a POST with a token of its user, and
// no other origin can send it. The page contains no inline script and no inline style, and loads nothing from
// elsewhere. Titles, addresses and logs hold IDs, and no key, scope or body.
//
// The package imports no database driver. It knows no routes, and does not run work.
package console
