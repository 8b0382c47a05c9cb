package readme

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/server"
)

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
