// Package report is what a run of the demo comes to: an audit of the ledgers
// ([Audit]), and its form for people and machines.
package report

import (
	"time"

	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

// Memory is the Storage of a run without a database.
const Memory = "memory"

// A Report is the result of a run.
type Report struct {
	Seed    uint64 `json:"seed"`
	Faults  string `json:"faults"`  // the profile's name
	Storage string `json:"storage"` // [Memory], or where the Postgres comes from
	// Keys is the store of the Keyed and Opaque routes, without its password; empty if it is Storage.
	Keys   string `json:"keys,omitempty"`
	Unsafe bool   `json:"unsafe"`

	Checkouts int `json:"checkouts"`
	Parallel  int `json:"parallel"`
	Accepted  int `json:"accepted"`
	// Submissions is how often customers pressed the button: once for each checkout,
	// and once more for each time that a call ended without an answer.
	Submissions int `json:"submissions"`
	Kills       int `json:"kills"` // of the payment service
	// Hops are the services, checkout first.
	Hops []Hop `json:"hops"`
	// Wall is from the first checkout to the last audit.
	Wall time.Duration `json:"wall_ns"`
	// Unaccepted are the orders that nobody acknowledged. That is correct if none of them took
	// effect twice.
	Unaccepted []Failure `json:"unaccepted"`
	// Charged are the orders that were charged more than once.
	Charged []Charge `json:"charged_more_than_once"`

	// Sagas are orders whose payment was refused; nil in unsafe runs.
	Sagas *Sagas `json:"sagas,omitempty"`

	OK bool `json:"ok"`
}

// Sagas are orders that were placed as sagas with a card that is declined.
type Sagas struct {
	Orders   int `json:"orders"`
	Undone   int `json:"undone"`   // that ended as compensated
	Reserved int `json:"reserved"` // goods put aside
	Released int `json:"released"` // and back
	Wrong    int `json:"wrong"`    // charges, refunds, messages
	Twice    int `json:"twice"`    // effects or undos that happened more than once
}

// ok reports whether nothing is left of the orders.
func (s *Sagas) ok() bool {
	return s == nil || s.Undone == s.Orders && s.Released == s.Reserved && s.Wrong == 0 && s.Twice == 0
}

// A Hop is one service, seen from its edge and from its ledger.
type Hop struct {
	Name string `json:"name"`

	// From the edge in front of the service.
	Attempts   int                   `json:"attempts"`
	Delivered  int                   `json:"delivered"`
	Unanswered int                   `json:"unanswered"` // delivered, and the service died
	Refused    int                   `json:"refused"`    // the service was dead
	Faults     map[faultnet.Kind]int `json:"faults"`

	// From the ledger.
	Effects int `json:"effects"`
	Min     int `json:"effects_per_key_min"` // over the accepted orders
	Max     int `json:"effects_per_key_max"` // over all orders
	Doubled int `json:"keys_with_more_than_one_effect"`
	// Lost is how many accepted orders have no effect here, or another one
	// than the customer was told of.
	Lost int `json:"lost_acknowledgements"`

	// Suppressed is what was delivered and answered, less the effects: what
	// did nothing because it had been done, or was being done.
	Suppressed int `json:"duplicates_suppressed"`
}

// A Charge is an order that was charged more than once.
type Charge struct {
	Order string `json:"order"`
	Times int    `json:"times"`
	Cents int64  `json:"cents"` // in all
}

// A Failure is an order that was never acknowledged.
type Failure struct {
	Order string `json:"order"`
	Error string `json:"error"` // of the last submission
}
