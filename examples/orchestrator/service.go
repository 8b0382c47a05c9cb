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
	orders   *saga.Definition[orderInput, struct{}]
}

// open opens the service. Its error wraps [hosting.ErrNotYet] while the
// database cannot be reached.
func open(ctx context.Context, cfg config) (_ *service, err error) {
	s := &service{ServeMux: http.NewServeMux(), cfg: cfg}
	if s.hops, err = newHops(cfg); err != nil {
		return nil, err
	}
	if s.database, err = hosting.OpenDatabase(ctx, cfg.database, pgjournal.Migrate, createOrders); err != nil {
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
	s.orders = newOrderSaga(s.journal)
	s.sagas, err = saga.Open(ctx, s.journal, saga.Config{
		Client:      s.hops,
		Definitions: []saga.AnyDefinition{checkoutSaga, s.orders}, Lease: s.cfg.lease, Logger: slog.Default(),
	})
	if err != nil {
		s.journal.Close()
	}
	return err
}

func (s *service) routes() error {
	s.Handle("GET /healthz", s.database.Healthz())
	s.HandleFunc("GET /v1/sagas/{key}", s.showSaga)
	s.HandleFunc("GET /v1/orders/{key}", s.showOrder)
	return errors.Join(
		s.handle("/v1/checkout", s.checkout),
		s.handle("/v1/sagas", s.startSaga),
		s.handle("/v1/orders", s.startOrder),
		s.handle("/v1/orders/{key}/decision", s.decideOrder),
	)
}

// handle guards a handler whose effects are at the hops, or of a saga: it can run again under the same key.
func (s *service) handle(path string, handler http.HandlerFunc) error {
	guarded, err := s.guard.Route(server.Route{Effect: server.Keyed, Fingerprint: hosting.Storable}, handler)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.Handle("POST "+path, hosting.WithAuthorization(guarded))
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
