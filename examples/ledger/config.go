package main

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server"
)

// config is the environment, parsed.
type config struct {
	listen      string          // LISTEN, host:port; required
	database    *pgxpool.Config // DATABASE_URL; required, may list several hosts
	lease       time.Duration   // LEASE; unset means the library's default
	retention   time.Duration   // RETENTION; unset means the library's default
	bodyTimeout time.Duration   // BODY_TIMEOUT, how long a body may take to arrive; unset means the library's default
	work        time.Duration   // WORK, how long a handler works; unset means 5ms
	sink        string          // SINK_URL; unset: /v1/effect-keyed is not served
	service     string          // SERVICE, the name in answers and rows; unset means ledger
}

// testObserver is told what the guard does; set by tests only.
var testObserver server.Observer

// testCodec seals what the guard stores; set by tests only.
var testCodec server.Codec

func configFromEnv(getenv func(string) string) (config, error) {
	env := hosting.NewEnv(getenv)
	cfg := config{
		listen:      env.Required("LISTEN"),
		database:    env.Database("DATABASE_URL", "ledger"),
		lease:       env.Duration("LEASE", 0),
		retention:   env.Duration("RETENTION", 0),
		bodyTimeout: env.Duration("BODY_TIMEOUT", 0),
		work:        env.Duration("WORK", 5*time.Millisecond),
		sink:        env.OptionalURL("SINK_URL"),
		service:     env.Name("SERVICE", "ledger"),
	}
	return cfg, env.Err()
}
