// Stores is the ledger's Keyed and Opaque routes on the store that STORE names. It needs no Postgres.
//
//	LISTEN=127.0.0.1:8080 STORE=redis://127.0.0.1:6379 go run .
//
// The environment is its configuration:
//
//	LISTEN    host:port
//	STORE     the store's address; its scheme is one of the table in internal/address
//	SINK_URL  where Keyed runs have their effects; unset: /v1/effect-keyed is not served
//	WORK      how long a handler works; unset means not at all
package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/examples/integrations/stores/internal/address"
	"github.com/fanonce/fanonce/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv)
	stop()
	if err != nil {
		slog.Error("stores stopped", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends: then it waits for the requests, for the guard's runs, and closes the store.
func run(ctx context.Context, getenv func(string) string) error {
	keys, err := address.Open(ctx, getenv("STORE"))
	if err != nil {
		return err
	}
	defer keys.Close()
	guard, err := server.NewGuard(keys, tenant, server.Config{Namespace: "stores", Logger: slog.Default()})
	if err != nil {
		return err
	}
	handler, err := routes(guard, getenv)
	if err != nil {
		return err
	}
	sweeping, stopSweeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSweeping()
	go guard.RunSweeper(sweeping)
	web := &http.Server{Addr: getenv("LISTEN"), Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	slog.Info("listening", "address", web.Addr)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 25*time.Second)
	defer cancel()
	return errors.Join(web.Shutdown(ending), guard.Shutdown(ending))
}
