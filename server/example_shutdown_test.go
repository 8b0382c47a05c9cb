package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A stop gives the web server, the guard and the last answers a time each. The sum is 27 s, for a platform that kills
// after 30 s. HandlerTimeout and SettleTimeout fit into the guard's time, so that no run is cut short. Close the
// store last: every run needs it.
func ExampleGuard_Shutdown() {
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{
		HandlerTimeout: 10 * time.Second, SettleTimeout: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	web := &http.Server{Handler: http.NewServeMux(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()

	// A service waits here for a signal (signal.NotifyContext).
	within := func(d time.Duration, shutdown func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return shutdown(ctx)
	}
	_ = within(5*time.Second, web.Shutdown)       // most requests end by themselves
	err = within(20*time.Second, guard.Shutdown)  // waits for runs and the sweeper
	_ = within(2*time.Second, web.Shutdown)       // the answers of these runs
	err = errors.Join(err, web.Close(), <-served) // the other connections run nothing
	fmt.Println(err)
	// Output: http: Server closed
}
