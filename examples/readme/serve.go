package readme

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/server"
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

// stop takes 27 s at most, for a platform that kills after 30 s. The guard's
// HandlerTimeout (15 s) and SettleTimeout (10 s) fit into the first two times.
func stop(web *http.Server, guard *server.Guard) error {
	within := func(d time.Duration, shutdown func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return shutdown(ctx)
	}
	_ = within(5*time.Second, web.Shutdown)       // most requests end by themselves
	err := within(20*time.Second, guard.Shutdown) // runs, which are cancelled with 10 s left, and the sweeper
	_ = within(2*time.Second, web.Shutdown)       // the answers of these runs
	return errors.Join(err, web.Close())          // what is open now runs nothing, as slow headers
}
