package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// A service is an orchestrator whose database is there.
type service struct {
	*http.ServeMux

	database  *hosting.Database
	guard     *server.Guard
	hops      *sdk.Client
	stopSweep func()
}

// open opens the service. Its error wraps [hosting.ErrNotYet] while the
// database cannot be reached.
func open(ctx context.Context, cfg config) (_ *service, err error) {
	s := &service{ServeMux: http.NewServeMux()}
	if s.hops, err = newHops(cfg); err != nil {
		return nil, err
	}
	if s.database, err = hosting.OpenDatabase(ctx, cfg.database); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.database.Close()
		}
	}()
	s.guard, err = server.NewGuard(s.database.Store, hosting.Tenant, server.Config{
		Lease: cfg.lease, Retention: cfg.retention, Logger: slog.Default(),
	})
	if err != nil {
		return nil, err
	}
	if err = s.routes(); err != nil {
		return nil, err
	}
	s.stopSweep = hosting.StartSweeping(s.guard.Sweep)
	return s, nil
}

func (s *service) routes() error {
	s.Handle("GET /healthz", s.database.Healthz())
	guarded, err := s.guard.Handler(server.Keyed, http.HandlerFunc(s.checkout))
	if err != nil {
		return fmt.Errorf("/v1/checkout: %w", err)
	}
	s.Handle("POST /v1/checkout", hosting.WithAuthorization(guarded))
	return nil
}

// Close ends what open started: the runs first, then what they stand on.
func (s *service) Close(ctx context.Context) error {
	s.stopSweep()
	err := s.guard.Shutdown(ctx)
	s.database.Close()
	return err
}
