// Package engine executes sagas. It claims them, decides their next calls from the known
// outcomes, makes these calls, and writes the outcomes to a journal.
//
// Package saga is its front. It gives the engine the plans of package graph. The
// engine knows the front by two functions of its [Config]. One observes. The other knows the
// error of a saga that a step's function ran.
//
// [Open] begins an engine's lease and its loops. [Engine.Run] and [Engine.Start] start a
// saga, [Operator] has the verbs of people. The order of the decisions is in decide.go and
// compensate.go, which are pure.
package engine
