// Orchestrator is a whole caller that is a callee itself: a guarded checkout
// that fans out to three hops, each of which it calls once per checkout,
// whatever is retried, repeated or killed.
//
// It is configured by its environment only (config.go):
//
//	LISTEN=127.0.0.1:8081 DATABASE_URL=postgres://… HOP_INVENTORY_URL=http://… \
//	HOP_PAYMENT_URL=http://… HOP_NOTIFICATION_URL=http://… go run ./examples/orchestrator
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/fanonce/fanonce/examples/internal/hosting"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := configFromEnv(os.Getenv)
	if err == nil {
		err = hosting.Run(ctx, cfg.listen, func(ctx context.Context) (hosting.Service, error) { return open(ctx, cfg) })
	}
	if err != nil {
		slog.Error("orchestrator stopped", "error", err)
		os.Exit(1)
	}
}
