// Ledger is a whole callee: it writes one effect for each idempotency key,
// whatever is retried, repeated or killed on the way to it.
//
// It is configured by its environment only (config.go). Run as many replicas
// over one database as you like:
//
//	LISTEN=127.0.0.1:8080 DATABASE_URL=postgres://… go run ./examples/ledger
package main

import (
	"context"
	"os"

	"github.com/fanonce/fanonce/examples/internal/hosting"
)

func main() {
	hosting.Main("ledger", func(ctx context.Context) error {
		cfg, err := configFromEnv(os.Getenv)
		if err != nil {
			return err
		}
		return hosting.Run(ctx, cfg.listen, cfg.bodyTimeout, func(ctx context.Context) (hosting.Service, error) { return open(ctx, cfg) })
	})
}
