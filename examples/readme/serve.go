package readme

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/server/pgstore"
)

// Serve is the callee's main, with a ctx that a signal ends (signal.NotifyContext).
func Serve(ctx context.Context, listener net.Listener, databaseURL string, cfg pgstore.Config, tenants map[string]string) error {
	store, err := OpenStore(ctx, databaseURL, cfg)
	if err != nil {
		return err
	}
	defer store.Close() // last: all that runs needs it
	inventory, guard, err := Inventory(store, tenants)
	if err != nil {
		return err
	}
	go guard.RunSweeper(context.WithoutCancel(ctx)) // until Shutdown
	web := &http.Server{Handler: inventory, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return errors.Join(err, stop(web, guard))
}
