package hosting

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a service until it is told to stop, by SIGINT or SIGTERM, and exits
// with status 1 if it ends in an error.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		slog.Error(name+" stopped", "error", err)
		os.Exit(1)
	}
}
