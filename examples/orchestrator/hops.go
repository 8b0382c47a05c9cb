package main

import (
	"context"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/sdk"
)

// An effectInput is what a hop is asked for. The last three are of sagas.
type effectInput struct {
	FP     string `json:"fp"`
	Saga   string `json:"saga,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Reject bool   `json:"reject,omitempty"`
}

// An effect is what a hop answers: the effect that the call had.
type effect struct {
	Key      string `json:"key"`
	EffectID string `json:"effect_id"`
}

// The hops' operations. Their child keys derive from these names.
var (
	reserve = contract.Post[effectInput, effect]("inventory", "reserve", "/v1/effect").UndoneBy(release)
	charge  = contract.Post[effectInput, effect]("payment", "charge", "/v1/effect").UndoneBy(refund)
	receipt = contract.Post[effectInput, effect]("notification", "receipt", "/v1/effect")

	holdLine = contract.Post[effectInput, effect]("inventory", "hold", "/v1/effect").UndoneBy(release)
	redeem   = contract.Post[effectInput, effect]("payment", "redeem", "/v1/effect").UndoneBy(restore)
	auth     = contract.Post[effectInput, effect]("payment", "authorize", "/v1/effect").UndoneBy(void)
	capture  = contract.Post[effectInput, effect]("payment", "capture", "/v1/effect/{id}/capture")

	restore = contract.Post[contract.Undo[effectInput, effect], effect]("payment", "restore", "/v1/undo")
	void    = contract.Post[contract.Undo[effectInput, effect], effect]("payment", "void", "/v1/undo")
	release = contract.Post[contract.Undo[effectInput, effect], effect]("inventory", "release", "/v1/undo")
	refund  = contract.Post[contract.Undo[effectInput, effect], effect]("payment", "refund", "/v1/undo")
)

// newHops returns the client of the three hops; it passes the tenant on.
func newHops(cfg config) (*sdk.Client, error) {
	hop := func(url string) sdk.Service { return sdk.Service{URL: url, HeaderFunc: authorize} }
	return sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"inventory":    hop(cfg.inventory),
		"payment":      hop(cfg.payment),
		"notification": hop(cfg.notification),
	}})
}

// authorize passes the tenant on. It is the tenant of the request, or of the saga that makes
// the call. A saga has no request when its caller has left.
func authorize(ctx context.Context, header http.Header) error {
	if info, ok := saga.FromContext(ctx); ok {
		header.Set("Authorization", hosting.Bearer(info.Scope))
		return nil
	}
	return hosting.Authorize(ctx, header)
}
