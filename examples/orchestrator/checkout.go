package main

import (
	"cmp"
	"context"
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

// checkout reserves and charges at the same time, and sends the receipt once both are done: what cannot be undone comes
// last. Run again under the same key, on whatever replica, it sends the same child keys, and the hops replay what they
// did. If a hop refuses for good, what the others did is undone before the refusal is stored.
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
	hold, paid := sdk.Add(fan, reserve, in), sdk.Add(fan, charge, in)
	sdk.AddFunc(fan, "notification.receipt", func(ctx context.Context) (effect, error) {
		_, notHeld := hold.Get(ctx)
		_, notPaid := paid.Get(ctx)
		if err := cmp.Or(notHeld, notPaid); err != nil {
			return effect{}, err
		}
		return sdk.Call(ctx, s.hops, receipt, in)
	})
	err = fan.Wait()
	out := answer{Tenant: tenant, Calls: callsOf(fan)}
	switch {
	case err == nil:
		hosting.WriteJSON(w, http.StatusOK, out)
	case !sdk.Resumable(err) && fan.Undo(ctx) == nil:
		hosting.WriteJSON(w, http.StatusPaymentRequired, out)
	default: // not stored: the next call runs again, and the hops say what became of it
		w.Header().Set("Retry-After", "1")
		hosting.WriteJSON(w, http.StatusServiceUnavailable, out)
	}
}

// callsOf returns the effect of each branch, or the key of its call where there is none.
func callsOf(fan *sdk.Fanout) map[string]effect {
	calls := make(map[string]effect)
	for name, result := range fan.Results() {
		call, _ := result.Value.(effect)
		if failed := new(retry.Error); errors.As(result.Err, &failed) {
			call.Key = failed.Key.String()
		}
		calls[name] = call
	}
	return calls
}
