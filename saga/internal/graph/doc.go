// Package graph is what a saga is declared as: a [Plan] of [Step]s, the edges between them, and the values that their inputs
// are made from. It checks a declaration ([Draft]), writes a plan as the lines that a journal keeps, and reads it back
// ([ParsePlan]). It does no I/O, reads no clock, and knows nothing of how far a saga has come: that is package engine.
//
// Package saga is its front. A step is a function of bytes and of values of any type, so no type of a user, and no type
// parameter, gets below the front.
package graph
