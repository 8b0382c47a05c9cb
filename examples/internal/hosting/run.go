package hosting

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	openRetry    = 200 * time.Millisecond // between two looks for what a starting service needs
	drainTimeout = 30 * time.Second       // how long a stopping one waits for its requests
)

// A Service answers requests until it is closed.
type Service interface {
	http.Handler
	// Close waits for what runs, and frees what the service stands on.
	Close(ctx context.Context) error
}

// ErrNotYet is wrapped by an [Open] that may succeed later.
var ErrNotYet = errors.New("not yet")

// An Open makes the service, as soon as what it needs is there.
type Open func(ctx context.Context) (Service, error)

// Run listens at once, answers 503 until open has succeeded, serves until ctx
// ends, and drains.
func Run(ctx context.Context, address string, open Open) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	front := new(gate)
	web := &http.Server{
		Handler:           front,
		ReadHeaderTimeout: 10 * time.Second,
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
	err = errors.Join(err, shutdown(context.WithoutCancel(ctx), web, service))
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

// shutdown lets requests end before the service that answers them.
func shutdown(ctx context.Context, web *http.Server, service Service) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := web.Shutdown(ctx)
	if service != nil {
		err = errors.Join(err, service.Close(ctx))
	}
	return err
}
