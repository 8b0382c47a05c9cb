package main

import (
	"errors"
	"net/http"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// An answer names every call that a checkout made.
type answer struct {
	Tenant string            `json:"tenant"`
	Calls  map[string]effect `json:"calls"`
}

// checkout fans out to the three hops. Run again under the same key, on
// whatever replica, it sends the same child keys, and the hops replay what
// they did.
func (s *service) checkout(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	tenant, err := hosting.Tenant(r)
	if err != nil {
		hosting.WriteError(w, err)
		return
	}
	var in effectInput
	if err := hosting.ReadJSON(r, &in); err != nil {
		hosting.WriteError(w, err)
		return
	}
	fan := s.hops.Fanout(ctx)
	branches := map[string]*sdk.Future[effect]{
		"inventory.reserve":    sdk.Add(fan, reserve, in),
		"payment.charge":       sdk.Add(fan, charge, in),
		"notification.receipt": sdk.Add(fan, receipt, in),
	}
	_ = fan.Wait() // every branch is looked at below
	out := answer{Tenant: tenant, Calls: make(map[string]effect, len(branches))}
	end := retry.Completed
	for name, branch := range branches {
		call, err := branch.Get(ctx)
		outcome := outcomeOf(err)
		if failed := new(retry.Error); errors.As(err, &failed) {
			call.Key = failed.Key.String()
		}
		out.Calls[name] = call
		end = worse(end, outcome)
	}
	switch end {
	case retry.Completed:
		hosting.WriteJSON(w, http.StatusOK, out)
	case retry.Rejected:
		hosting.WriteJSON(w, http.StatusPaymentRequired, out)
	default: // not stored: the next call runs again, and the hops say what became of it
		w.Header().Set("Retry-After", "1")
		hosting.WriteJSON(w, http.StatusServiceUnavailable, out)
	}
}

// outcomeOf returns how a branch ended. A call whose effect happened counts as
// completed, whether its answer could be had or not.
func outcomeOf(err error) retry.Outcome {
	failed := new(retry.Error)
	switch {
	case err == nil:
		return retry.Completed
	case errors.As(err, &failed):
		return failed.Outcome
	}
	return retry.Unknown
}

// worse returns what two branches come to: a rejection is final only when
// nothing is open any more.
func worse(a, b retry.Outcome) retry.Outcome {
	open := func(o retry.Outcome) bool { return o == retry.Unknown || o == retry.NotSent }
	switch {
	case open(a) || open(b):
		return retry.Unknown
	case a == retry.Rejected || b == retry.Rejected:
		return retry.Rejected
	}
	return retry.Completed
}
