// Package engine claims keys, runs calls and settles them. It has one state machine for every kind of call. The
// adapters in package server translate HTTP and functions into a [Call], and decide nothing about keys.
//
// Begin with [Engine.Do], which leads from a call to its outcome. In single_flight.go one
// request of a key goes on. Then claim.go asks the store, and decide.go is the whole
// policy. A claimed call is run and settled in run.go.
//
// The package knows neither HTTP nor a database. It knows a status only as a number.
package engine
