package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// A service is a ledger whose database is there.
type service struct {
	*http.ServeMux

	cfg      config
	database *hosting.Database
	guard    *server.Guard
	sink     *sdk.Client // nil where SINK_URL is unset
}

// open opens the service. Its error wraps [hosting.ErrNotYet] while the
// database cannot be reached.
func open(ctx context.Context, cfg config) (_ *service, err error) {
	s := &service{ServeMux: http.NewServeMux(), cfg: cfg}
	if s.sink, err = newSink(cfg.sink); err != nil {
		return nil, err
	}
	if s.database, err = hosting.OpenDatabase(ctx, cfg.database, createEffects); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.database.Close()
		}
	}()
	s.guard, err = server.NewGuard(s.database.Store, hosting.Tenant, server.Config{
		HandlerTimeout: hosting.HandlerTimeout, Lease: cfg.lease, Retention: cfg.retention, BodyTimeout: cfg.bodyTimeout, Observer: testObserver, Codec: testCodec, Logger: slog.Default(),
	})
	if err != nil {
		return nil, err
	}
	if err = s.routes(); err != nil {
		return nil, err
	}
	go s.guard.RunSweeper(context.WithoutCancel(ctx)) // until Shutdown
	return s, nil
}

// routes declares, route by route, where a handler's effects go.
func (s *service) routes() error {
	s.Handle("GET /healthz", s.database.Healthz())
	err := errors.Join(
		s.handle("/v1/effect", server.Route{Effect: server.Transactional}, s.effect),
		s.handle("/v1/effect-opaque", server.Route{Effect: server.Opaque}, s.effectOpaque),
		s.handle("/v1/effect/{id}/capture", server.Route{Effect: server.Transactional}, s.capture),
		s.handle("/v1/undo", server.Route{Effect: server.Transactional}, s.undo),
	)
	if s.sink != nil {
		err = errors.Join(err, s.handle("/v1/effect-keyed", server.Route{Effect: server.Keyed}, s.effectKeyed))
	}
	return err
}

func (s *service) handle(path string, route server.Route, handler http.HandlerFunc) error {
	route.Fingerprint = hosting.Storable
	guarded, err := s.guard.Route(route, handler)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.Handle("POST "+path, hosting.WithAuthorization(guarded))
	return nil
}

// Drain waits for the guard's runs and its sweeper.
func (s *service) Drain(ctx context.Context) error { return s.guard.Shutdown(ctx) }

// Close closes the database, which all that runs needs.
func (s *service) Close() { s.database.Close() }
