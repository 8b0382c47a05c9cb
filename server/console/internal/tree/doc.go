// Package tree finds the keys and sagas of one request in the stores of all hops.
//
// Use [Build]. A record names its caller's record ([store.Record].Parent). Build goes from one ID up to
// the topmost record that a store knows, and then down to all records below it. A [Tree] is bounded in depth,
// in nodes and in time. A store that fails is a node with its error, and the rest is shown.
//
// A parent decides nothing, and a caller may send any value. So a tree is a help for people, and is not a
// proof. The package only reads, and writes no HTML.
package tree
