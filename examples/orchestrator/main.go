// Orchestrator is a whole caller that is a callee itself: a guarded checkout that fans out to
// three hops. It calls each hop once per checkout, whatever is retried, repeated or killed.
// POST /v1/sagas does the same as a saga, which finishes or is undone even if nobody comes back
// for it; GET /v1/sagas/{key} shows it.
//
// POST /v1/orders begins a longer saga (order.go): lines of an order, a gift card if there is one, a person who decides above
// a limit, time to change one's mind, a row of its own, a payment that is captured in the end. GET /v1/orders/{key} shows it,
// and POST /v1/orders/{key}/decision is what the person says.
//
// It is configured by its environment only (config.go):
//
//	LISTEN=127.0.0.1:8081 DATABASE_URL=postgres://… HOP_INVENTORY_URL=http://… \
//	HOP_PAYMENT_URL=http://… HOP_NOTIFICATION_URL=http://… go run ./examples/orchestrator
package main

import (
	"context"
	"os"

	"github.com/fanonce/fanonce/examples/internal/hosting"
)

func main() {
	hosting.Main("orchestrator", func(ctx context.Context) error {
		cfg, err := configFromEnv(os.Getenv)
		if err != nil {
			return err
		}
		return hosting.Run(ctx, cfg.listen, 0, func(ctx context.Context) (hosting.Service, error) { return open(ctx, cfg) })
	})
}
