package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/internal/engine"
)

// DefaultStopTimeout is what a zero [Stop].Timeout means. Many platforms kill a process 30 s after they asked it to end.
const DefaultStopTimeout = 25 * time.Second

// A Stop says how [Guard.Serve] stops. The zero Stop begins at once, and takes [DefaultStopTimeout] at most.
type Stop struct {
	// Drain is how long requests are still accepted while [Guard.ReadyHandler] refuses, so that a load balancer sends new
	// ones elsewhere first: a bit more than it needs to notice, such as 5 s. Zero means none, which suits a program
	// without a load balancer, whose callers retry.
	Drain time.Duration
	// Timeout is how long the stop takes at most after Drain. Runs that need longer are cancelled one
	// [Config].SettleTimeout before it, see [Guard.Shutdown]. Zero means [DefaultStopTimeout].
	Timeout time.Duration
}

// check returns the Stop with its zeros filled in.
func (s Stop) check(settle time.Duration) (Stop, error) {
	s.Timeout = cmp.Or(s.Timeout, DefaultStopTimeout)
	switch {
	case s.Drain < 0:
		return s, reject("Stop.Drain", s.Drain.String(), "must not be negative")
	case s.Timeout < 0:
		return s, reject("Stop.Timeout", s.Timeout.String(), "must not be negative")
	case s.Timeout <= settle:
		return s, reject("Stop.Timeout", s.Timeout.String(), fmt.Sprintf("must be more than Config.SettleTimeout, %v", settle))
	}
	return s, nil
}

// Serve serves web at its Addr, and sweeps, until ctx ends. Then it stops in the order in which nothing is lost: it turns
// unready, drains, lets the requests end, shuts the guard down, and sends the last answers. It returns nil after a clean
// stop. Close the store after that. A service ends with:
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err := guard.Serve(ctx, &http.Server{Addr: ":8080", Handler: mux}, server.Stop{Drain: 5 * time.Second})
//
// web listens with TLS if its TLSConfig is not nil. A wrong argument is a [ConfigError], and nothing is served then. If
// web cannot listen, Serve returns that error at once. If web fails later, Serve shuts the guard down first. Serve is
// called once. A service with several guards or listeners does by itself what the example of [Guard.Shutdown] does. An engine
// of sagas is closed after Serve, with time of its own, and its journal after that: no handler waits for a saga then.
func (g *Guard) Serve(ctx context.Context, web *http.Server, how Stop) error {
	how, err := how.check(g.cfg.SettleTimeout)
	if err != nil {
		return err
	}
	if web == nil {
		return reject("web", "nil", "an http.Server is required")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(web.Addr, ":http"))
	if err != nil {
		return fmt.Errorf("server: serve: %w", err)
	}
	sweeping, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it ends with the guard
	var sweeper sync.WaitGroup
	defer sweeper.Wait()
	defer cancel()
	sweeper.Go(func() { g.RunSweeper(sweeping) })
	failed := make(chan error, 1)
	go func() { failed <- serve(web, listener) }()
	select {
	case err = <-failed: // without having been asked to
	case <-ctx.Done():
		err = g.drain(how.Drain, failed)
	}
	return errors.Join(err, g.stop(context.WithoutCancel(ctx), web, how.Timeout))
}

func serve(web *http.Server, listener net.Listener) error {
	if web.TLSConfig != nil {
		return web.ServeTLS(listener, "", "")
	}
	return web.Serve(listener)
}

// drain makes the guard unready for a while.
func (g *Guard) drain(d time.Duration, failed <-chan error) error {
	g.draining.Store(true)
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-failed:
		return err
	case <-timer.C:
		return nil
	}
}

// stop ends web and the guard within d: most requests end by themselves in the first fifth. The runs then have the time
// until the last tenth, in which their answers leave.
func (g *Guard) stop(ctx context.Context, web *http.Server, d time.Duration) error {
	g.draining.Store(true)
	within := func(d time.Duration, shutdown func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return shutdown(ctx)
	}
	_ = within(d/5, web.Shutdown) // those that are left are runs, or wait for one
	err := within(max(d*7/10, g.cfg.SettleTimeout), g.Shutdown)
	_ = within(d/10, web.Shutdown)
	return errors.Join(err, web.Close()) // the connections that are left run nothing
}

// ReadyHandler answers 200 while the guard takes requests and its store answers, else 503, with the reason as plain text.
// It asks the store's Check, if the store has one, for [Config].StoreTimeout at most. [Guard.Serve] makes it refuse from
// when its ctx ends, and [Guard.Shutdown] does too. It is for the readiness probe of a platform. Do not use it as the
// liveness probe: a process does not get better by a restart while its database is away.
func (g *Guard) ReadyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), g.cfg.StoreTimeout)
		defer cancel()
		w.Header().Set("Cache-Control", "no-store")
		if reason := g.unready(ctx); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n")) // the probe may be gone
	})
}

// unready returns why the guard takes no requests, or "".
func (g *Guard) unready(ctx context.Context) string {
	if g.draining.Load() {
		return "stopping"
	}
	checked, ok := g.under.(interface{ Check(context.Context) error })
	if !ok {
		return ""
	}
	if err := checked.Check(ctx); err != nil {
		g.log.write(ctx, logLine{Line: engine.Line{Level: slog.LevelWarn, Message: "not ready", Err: err}})
		return "the store does not answer; the log has the error"
	}
	return ""
}
