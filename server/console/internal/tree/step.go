package tree

import "sort"

// guessSteps sets the Step of those children of a saga that probably belong to one call.
//
// The key of a call is derived from the names of its step. But the ID of a record also depends on the callee's scope
// and namespace, which a console does not know. So the time decides: the first call that ended after the child
// began is its call. Two children of one call are the sign that steps ran side by side, and then neither gets a Step.
func guessSteps(saga *Node) {
	if saga.Kind != KindSaga || len(saga.Entries) == 0 {
		return
	}
	entryOf := func(child *Node) int {
		return sort.Search(len(saga.Entries), func(i int) bool { return !saga.Entries[i].At.Before(child.Start) })
	}
	children := make([]int, len(saga.Entries)+1)
	for _, c := range saga.Children {
		children[entryOf(c)]++
	}
	for _, c := range saga.Children {
		if i := entryOf(c); i < len(saga.Entries) && children[i] == 1 {
			c.Step, c.Undo = saga.Entries[i].Step, saga.Entries[i].Undo
		}
	}
}
