package report

import (
	"slices"

	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

// A Finding is a service to be audited.
type Finding struct {
	Name    string
	Network faultnet.Counts
	Ledger  []ledger.Tally
	// Told returns the id of this service's effect that a confirmation names.
	Told func(checkoutapi.Confirmation) string
}

// Audit compares what customers were told, by order, with what a service did.
func Audit(accepted map[string]checkoutapi.Confirmation, f Finding) Hop {
	hop := Hop{
		Name: f.Name, Attempts: f.Network.Attempts, Delivered: f.Network.Delivered,
		Unanswered: f.Network.Unanswered, Refused: f.Network.Refused, Faults: f.Network.Faults,
	}
	effects := make(map[string][]string, len(f.Ledger))
	for _, tally := range f.Ledger {
		effects[tally.Order] = tally.IDs
		hop.Effects += len(tally.IDs)
		hop.Max = max(hop.Max, len(tally.IDs))
		if len(tally.IDs) > 1 {
			hop.Doubled++
		}
	}
	hop.Min = hop.Max
	for order, confirmation := range accepted {
		hop.Min = min(hop.Min, len(effects[order]))
		if !slices.Contains(effects[order], f.Told(confirmation)) {
			hop.Lost++
		}
	}
	hop.Suppressed = max(0, hop.Delivered-hop.Unanswered-hop.Effects)
	return hop
}

// Charges returns the orders of a ledger that were charged more than once.
func Charges(book []ledger.Tally) []Charge {
	charges := []Charge{}
	for _, tally := range book {
		if len(tally.IDs) > 1 {
			charges = append(charges, Charge{tally.Order, len(tally.IDs), tally.Cents})
		}
	}
	return charges
}

// Decide sets OK: no key has two effects, no accepted one has none, and of sagas that
// were undone nothing is left.
func (r *Report) Decide() {
	r.OK = r.Sagas.ok()
	for _, hop := range r.Hops {
		r.OK = r.OK && hop.Doubled == 0 && hop.Lost == 0
	}
}
