package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// A service is an orchestrator whose database is there.
type service struct {
	*http.ServeMux

	cfg      config
	database *hosting.Database
	guard    *server.Guard
	hops     *sdk.Client
	journal  *pgjournal.Journal
	sagas    *saga.Engine
}

// open opens the service. Its error wraps [hosting.ErrNotYet] while the
// database cannot be reached.
func open(ctx context.Context, cfg config) (_ *service, err error) {
	s := &service{ServeMux: http.NewServeMux(), cfg: cfg}
	if s.hops, err = newHops(cfg); err != nil {
		return nil, err
	}
	if s.database, err = hosting.OpenDatabase(ctx, cfg.database, pgjournal.Migrate); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.database.Close()
		}
	}()
	s.guard, err = server.NewGuard(s.database.Store, hosting.Tenant, server.Config{
		HandlerTimeout: hosting.HandlerTimeout, Lease: cfg.lease, Retention: cfg.retention, BodyTimeout: cfg.bodyTimeout, Logger: slog.Default(),
	})
	if err != nil {
		return nil, err
	}
	if err = s.routes(); err != nil {
		return nil, err
	}
	if err = s.openSagas(ctx); err != nil {
		return nil, err
	}
	go s.guard.RunSweeper(context.WithoutCancel(ctx)) // until Shutdown
	go s.sagas.RunSweeper(context.WithoutCancel(ctx)) // until Close
	return s, nil
}

// openSagas is the last to open: it begins at once with the sagas that other processes left.
func (s *service) openSagas(ctx context.Context) (err error) {
	if s.journal, err = pgjournal.New(s.database.Pool, pgjournal.Config{AllowNonDurable: true}); err != nil {
		return err
	}
	s.sagas, err = saga.Open(ctx, s.journal, saga.Config{
		Client:      s.hops,
		Definitions: []saga.AnyDefinition{checkoutSaga}, Lease: s.cfg.lease, Logger: slog.Default(),
	})
	if err != nil {
		s.journal.Close()
	}
	return err
}

func (s *service) routes() error {
	s.Handle("GET /healthz", s.database.Healthz())
	route := server.Route{Effect: server.Keyed, Fingerprint: hosting.Storable}
	guarded, err := s.guard.Route(route, http.HandlerFunc(s.checkout))
	if err != nil {
		return fmt.Errorf("/v1/checkout: %w", err)
	}
	s.Handle("POST /v1/checkout", hosting.WithAuthorization(guarded))
	if guarded, err = s.guard.Route(route, http.HandlerFunc(s.startSaga)); err != nil {
		return fmt.Errorf("/v1/sagas: %w", err)
	}
	s.Handle("POST /v1/sagas", guarded)
	s.HandleFunc("GET /v1/sagas/{key}", s.showSaga)
	return nil
}

// Drain waits for the guard's runs, and for the sagas that this process executes.
// Both end beside each other: neither takes the other's time.
func (s *service) Drain(ctx context.Context) error {
	sagas := make(chan error, 1)
	go func() { sagas <- s.sagas.Close(ctx) }()
	return errors.Join(s.guard.Shutdown(ctx), <-sagas)
}

// Close closes the journal and the database, which all that runs needs.
func (s *service) Close() {
	s.journal.Close()
	s.database.Close()
}
