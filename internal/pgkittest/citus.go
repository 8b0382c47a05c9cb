package pgkittest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dropTimeout bounds how long the schema of a test is dropped.
const dropTimeout = time.Minute

// CitusURL returns the environment's DISTRIBUTED_URL: the database of a Citus that is there
// already. Without it tb is skipped.
func CitusURL(tb testing.TB) string {
	tb.Helper()
	address := os.Getenv("DISTRIBUTED_URL")
	if address == "" {
		tb.Skip("DISTRIBUTED_URL is not set: there is no Citus to test with")
	}
	return address
}

// NewCitusPool returns a pool on an empty schema of tb's own, in the database of [CitusURL]. The
// pool's URL names the schema, so that other processes find the same tables.
func NewCitusPool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	schema := "fanonce_test_" + strings.ToLower(rand.Text())
	pool, err := pgxpool.NewWithConfig(tb.Context(), citusConfig(tb, schema))
	if err != nil {
		tb.Fatalf("pgkittest: open a pool on a Citus: %v", err)
	}
	tb.Cleanup(pool.Close)
	if _, err := pool.Exec(tb.Context(), "create schema "+pgx.Identifier{schema}.Sanitize()); err != nil {
		tb.Fatalf("pgkittest: make a schema: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), dropTimeout) // tb's own is over
		defer cancel()
		drop := "drop schema " + pgx.Identifier{schema}.Sanitize() + " cascade"
		_, err := pool.Exec(ctx, drop)
		for isDeadlock(err) { // with the drop of another test
			_, err = pool.Exec(ctx, drop)
		}
		if err != nil {
			tb.Errorf("pgkittest: drop a schema: %v", err)
		}
	})
	return pool
}

func isDeadlock(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "40P01"
}

func citusConfig(tb testing.TB, schema string) *pgxpool.Config {
	tb.Helper()
	u, err := url.Parse(CitusURL(tb))
	if err != nil {
		tb.Fatalf("pgkittest: DISTRIBUTED_URL: %v", err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	query.Set("citus.shard_count", "8")
	u.RawQuery = query.Encode()
	cfg, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		tb.Fatalf("pgkittest: DISTRIBUTED_URL: %v", err)
	}
	cfg.MaxConns = max(cfg.MaxConns, 16)
	return cfg
}
