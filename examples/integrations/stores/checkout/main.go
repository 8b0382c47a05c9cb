// Checkout is the demo of examples/checkout, with the keys of the Keyed and Opaque routes in the Redis that
// STORE names:
//
//	STORE=redis://localhost:6379 go run -C examples/integrations ./stores/checkout
//	STORE=redis://localhost:6379 go run -C examples/integrations ./stores/checkout -faults=brutal
//
// Transactional routes keep their keys beside their ledgers, in Postgres or memory. Everything else is as in
// examples/checkout, and so are the flags.
package main

import (
	"context"
	"net/url"
	"os"

	"github.com/fanonce/fanonce/examples/checkout/demo"
	"github.com/fanonce/fanonce/examples/integrations/stores/internal/address"
	"github.com/fanonce/fanonce/server/store"
)

func main() { os.Exit(demo.Main(openers())) }

// openers are the stores that the demo cannot open without this module's clients.
func openers() map[string]demo.Opener {
	return map[string]demo.Opener{"redis": open, "rediss": open}
}

func open(ctx context.Context, at *url.URL) (store.Store, func(), error) {
	opened, err := address.OpenURL(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	return opened.Store, opened.Close, nil
}
