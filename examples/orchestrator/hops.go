package main

import (
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/sdk"
)

// An effectInput is what a hop is asked for.
type effectInput struct {
	FP string `json:"fp"`
}

// An effect is what a hop answers: the effect that the call had.
type effect struct {
	Key      string `json:"key"`
	EffectID string `json:"effect_id"`
}

// The hops' operations. Their child keys derive from these names.
var (
	reserve = contract.Post[effectInput, effect]("inventory", "reserve", "/v1/effect")
	charge  = contract.Post[effectInput, effect]("payment", "charge", "/v1/effect")
	receipt = contract.Post[effectInput, effect]("notification", "receipt", "/v1/effect")
)

// newHops returns the client of the three hops; it passes the tenant on.
func newHops(cfg config) (*sdk.Client, error) {
	hop := func(url string) sdk.Service { return sdk.Service{URL: url, Prepare: hosting.Authorize} }
	return sdk.New(sdk.Config{Services: map[string]sdk.Service{
		"inventory":    hop(cfg.inventory),
		"payment":      hop(cfg.payment),
		"notification": hop(cfg.notification),
	}})
}
