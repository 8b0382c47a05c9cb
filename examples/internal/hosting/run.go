package hosting

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// openRetry is the time between two attempts to reach the database.
const openRetry = 200 * time.Millisecond

// readTimeout bounds the bodies of requests that no guard reads, such as those to an
// unknown path. net/http reads them before it answers. A guard's BodyTimeout is shorter by default.
const readTimeout = 20 * time.Second

// HandlerTimeout is the guard's, of every example service. With the guard's
// SettleTimeout, 10 s, it fits into the time that a stop gives requests and runs. So
// a stop cancels no run before its own time is up.
const HandlerTimeout = 15 * time.Second

// stopTimes are how long each part of a stop may take. None takes what another
// needs.
type stopTimes struct{ requests, runs, answers time.Duration }

// defaultStop is 27 s in all, for a platform that kills after 30 s, as Kubernetes
// does by default.
var defaultStop = stopTimes{requests: 5 * time.Second, runs: 20 * time.Second, answers: 2 * time.Second}

// A Service answers requests until it is closed.
type Service interface {
	http.Handler
	// Drain waits for the runs, and cancels them in time before ctx ends.
	Drain(ctx context.Context) error
	// Close frees what the service stands on. It comes last.
	Close()
}

// ErrNotYet is wrapped by an [Open] that may succeed later.
var ErrNotYet = errors.New("not yet")

// An Open makes the service, as soon as what it needs is there.
type Open func(ctx context.Context) (Service, error)

// Run listens at once, answers 503 until open has succeeded, serves until ctx
// ends, and drains. bodyTimeout is the guard's BodyTimeout, or zero for the default; the server
// leaves the guard that time.
func Run(ctx context.Context, address string, bodyTimeout time.Duration, open Open) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return run(ctx, listener, max(readTimeout, 2*bodyTimeout), open, defaultStop)
}

func run(ctx context.Context, listener net.Listener, readTimeout time.Duration, open Open, times stopTimes) error {
	front := new(readiness)
	web := &http.Server{
		Handler:           front,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       readTimeout,
		// A request outlives the signal that begins the drain.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	failed := make(chan error, 1)
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
		close(failed)
	}()
	slog.Info("listening", "address", listener.Addr().String())

	service, err := openWhenReady(ctx, open)
	if service != nil {
		front.open(service)
		slog.Info("ready")
		select {
		case <-ctx.Done():
		case err = <-failed:
		}
	}
	front.drain()
	err = errors.Join(err, stop(context.WithoutCancel(ctx), web, service, times))
	return errors.Join(err, <-failed)
}

// openWhenReady opens the service as soon as that is possible. It returns
// neither a service nor an error if ctx ends before.
func openWhenReady(ctx context.Context, open Open) (Service, error) {
	for said := false; ; said = true {
		service, err := open(ctx)
		switch {
		case err == nil:
			return service, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // told to stop while starting: nothing went wrong
		case !errors.Is(err, ErrNotYet):
			return nil, err
		}
		if !said {
			slog.Warn("not ready yet", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(openRetry):
		}
	}
}

// stop lets requests end by themselves. Then it ends the runs, and lets their answers
// leave. It closes the service last. A connection that is open after the answers is
// not a run, but slow headers, for instance: stop cuts it, and returns no error.
func stop(ctx context.Context, web *http.Server, service Service, times stopTimes) error {
	_ = runWithin(ctx, times.requests, web.Shutdown) // the service ends what is left of them
	var err error
	if service != nil {
		defer service.Close()
		err = runWithin(ctx, times.runs, service.Drain)
	}
	_ = runWithin(ctx, times.answers, web.Shutdown)
	return errors.Join(err, web.Close())
}

// runWithin calls do with a ctx that ends after d.
func runWithin(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}
