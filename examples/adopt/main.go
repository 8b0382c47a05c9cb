// Adopt is a service that moves from a table of idempotency keys of its own to a guard, while it serves. It is
// configured by its environment only, and PHASE is all that a deploy changes:
//
//	old    the hand-written table alone
//	both   the guard; each key is also claimed and answered in the table, for the old processes beside this one
//	look   the guard; the table is only read
//	new    the guard alone
//
// server/ADOPT.md says when to go on from a phase, and how to go back.
//
//	PHASE=both LISTEN=127.0.0.1:8080 DATABASE_URL=postgres://… go run ./examples/adopt
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server"
)

func main() {
	hosting.Main("adopt", func(ctx context.Context) error {
		env := hosting.NewEnv(os.Getenv)
		listen := env.Required("LISTEN")
		cfg := config{
			database: env.Database("DATABASE_URL", "adopt"), phase: env.Required("PHASE"),
			lock: env.Duration("LOCK", 90*time.Second), lease: env.Duration("LEASE", 0),
		}
		if err := env.Err(); err != nil {
			return err
		}
		return hosting.Run(ctx, listen, 0, func(ctx context.Context) (hosting.Service, error) { return open(ctx, cfg) })
	})
}

// config is the environment, parsed.
type config struct {
	database *pgxpool.Config
	phase    string
	lock     time.Duration // how long the old code believes that a process which has not answered still works
	lease    time.Duration // the guard's; zero means the library's default
}

// A service serves POST /transfers in one phase.
type service struct {
	*http.ServeMux

	database *hosting.Database
	guard    *server.Guard // nil in the phase old
}

func open(ctx context.Context, cfg config) (*service, error) {
	database, err := hosting.OpenDatabase(ctx, cfg.database, createTables)
	if err != nil {
		return nil, err
	}
	s := &service{ServeMux: http.NewServeMux(), database: database}
	handler, err := s.handler(cfg)
	if err != nil {
		database.Close()
		return nil, err
	}
	s.Handle("GET /healthz", database.Healthz())
	s.Handle("POST /transfers", handler)
	return s, nil
}

// handler is the route of a phase.
func (s *service) handler(cfg config) (http.Handler, error) {
	next := http.Handler(http.HandlerFunc(transferGuarded))
	switch cfg.phase {
	case "old":
		return &oldGuard{s.database.Pool, cfg.lock}, nil
	case "both":
		next = oldTable{Lock: cfg.lock, Write: true}.wrap(next)
	case "look":
		next = oldTable{Lock: cfg.lock}.wrap(next)
	case "new":
	default:
		return nil, fmt.Errorf("PHASE %q is none of old, both, look and new", cfg.phase)
	}
	var err error
	s.guard, err = server.NewGuard(s.database.Store, hosting.Tenant, server.Config{HandlerTimeout: hosting.HandlerTimeout, Lease: cfg.lease})
	if err != nil {
		return nil, err
	}
	go s.guard.RunSweeper(context.Background()) // until Shutdown
	return s.guard.Route(server.Route{Effect: server.Transactional, Key: keyOf}, next)
}

// Drain waits for the guard's runs.
func (s *service) Drain(ctx context.Context) error {
	if s.guard == nil {
		return nil
	}
	return s.guard.Shutdown(ctx)
}

// Close closes the database.
func (s *service) Close() { s.database.Close() }
