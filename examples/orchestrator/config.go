package main

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/internal/hosting"
)

// config is the environment, parsed.
type config struct {
	listen       string          // LISTEN, host:port; required
	database     *pgxpool.Config // DATABASE_URL; required, may list several hosts
	lease        time.Duration   // LEASE; unset means the library's default
	retention    time.Duration   // RETENTION; unset means the library's default
	bodyTimeout  time.Duration   // BODY_TIMEOUT, how long a body may take to arrive; unset means the library's default
	inventory    string          // HOP_INVENTORY_URL; required
	payment      string          // HOP_PAYMENT_URL; required
	notification string          // HOP_NOTIFICATION_URL; required
}

func configFromEnv(getenv func(string) string) (config, error) {
	env := hosting.NewEnv(getenv)
	cfg := config{
		listen:       env.Required("LISTEN"),
		database:     env.Database("DATABASE_URL", "orchestrator"),
		lease:        env.Duration("LEASE", 0),
		retention:    env.Duration("RETENTION", 0),
		bodyTimeout:  env.Duration("BODY_TIMEOUT", 0),
		inventory:    env.URL("HOP_INVENTORY_URL"),
		payment:      env.URL("HOP_PAYMENT_URL"),
		notification: env.URL("HOP_NOTIFICATION_URL"),
	}
	return cfg, env.Err()
}
